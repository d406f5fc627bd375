"""The one tool of the bench, as a configuration names it."""

from langchain_core.tools import tool


@tool
async def bench_add(a: int, b: int) -> str:
    """Add two integers."""
    return str(a + b)
