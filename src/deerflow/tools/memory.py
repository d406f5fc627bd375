"""`memory_search`, `memory_add`, `memory_update`, `memory_forget`: the model keeps the memory."""

from __future__ import annotations

import time
from typing import Annotated

from langchain_core.tools import BaseTool
from pydantic import BaseModel, BeforeValidator, WithJsonSchema

from deerflow.errors import NotFoundError, ToolError, UsageError
from deerflow.memory.protocol import CATEGORIES, Category, Fact, MemoryManager, Source
from deerflow.tools.schema import Runtime, Text, make_tool, optional

FOUND = 15
"""Facts of one search."""

DAY = 86_400


Kind = Annotated[
    Category | None,
    BeforeValidator(lambda given: given or None),
    WithJsonSchema({"type": "string", "enum": list(CATEGORIES)}),
]
"""Optional category, None when left out."""


class SearchArgs(BaseModel):
    """Arguments of memory_search."""

    query: Text = optional(str)


class AddArgs(BaseModel):
    """Arguments of memory_add."""

    content: str
    category: Category


class UpdateArgs(BaseModel):
    """Arguments of memory_update."""

    id: str
    content: Text = optional(str)
    category: Kind = optional()


class ForgetArgs(BaseModel):
    """Arguments of memory_forget."""

    id: str


def memory_tools(manager: MemoryManager) -> list[BaseTool]:
    """The four tools over a memory; each serves the user of the run that calls it."""
    tools = _Tools(manager)
    return [
        make_tool(
            "memory_search",
            "Find remembered facts about the user by words; without a query the newest.",
            SearchArgs,
            tools.search,
            {"idempotent": True, "untrusted": True},
        ),
        make_tool(
            "memory_add",
            "Remember one lasting fact about the user, in a sentence.",
            AddArgs,
            tools.add,
            {"idempotent": True},
        ),
        make_tool(
            "memory_update",
            "Replace a remembered fact that no longer holds.",
            UpdateArgs,
            tools.update,
            {},
        ),
        make_tool("memory_forget", "Forget a remembered fact.", ForgetArgs, tools.forget, {}),
    ]


class _Tools:
    def __init__(self, manager: MemoryManager) -> None:
        self._manager = manager

    async def search(self, runtime: Runtime, query: str = "") -> str:
        """Facts with ids, a line each."""
        found = await self._manager.search(runtime.context.user_id, query, limit=FOUND)
        return "\n".join(_line(fact) for fact in found) or "Nothing is remembered about that."

    async def add(self, content: str, category: str, runtime: Runtime) -> str:
        """Add, or confirm what is known."""
        try:
            fact = await self._manager.add(
                runtime.context.user_id, content, category=category, source=_source(runtime)
            )
        except UsageError as error:
            raise ToolError(error.message, cure=error.cure) from error
        return f"Remembered: {_line(fact)}"

    async def update(
        self, id: str, runtime: Runtime, content: str = "", category: str | None = None
    ) -> str:
        """Put another fact in the place of one."""
        given = {"content": content, "category": category}
        fields = {name: value for name, value in given.items() if value}
        if not fields:
            raise ToolError("Nothing is to be changed.", cure="Give content or category.")
        try:
            fact = await self._manager.change(
                runtime.context.user_id, id, **fields, source=_source(runtime)
            )
        except UsageError as error:
            raise _refused(error) from error
        return f"Now remembered: {_line(fact)}"

    async def forget(self, id: str, runtime: Runtime) -> str:
        """Remove a fact."""
        try:
            fact = await self._manager.forget(runtime.context.user_id, id)
        except UsageError as error:
            raise _refused(error) from error
        return f"Forgotten: {fact.content}"


def _refused(error: UsageError) -> ToolError:
    cure = "memory_search gives the ids." if isinstance(error, NotFoundError) else error.cure
    return ToolError(error.message, cure=cure)


def _source(runtime: Runtime) -> Source:
    return Source(thread=runtime.context.thread_id)


def _line(fact: Fact) -> str:
    day = time.strftime("%Y-%m-%d", time.gmtime(fact.last_confirmed))
    over = fact.valid_days is not None and (
        time.time() > fact.last_confirmed + fact.valid_days * DAY
    )
    return f"{fact.id} [{fact.category}] {fact.content} ({day}{', may be out of date' * over})"
