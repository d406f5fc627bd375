"""The tool by which a lead has answers verified; loaded where that is switched on."""

from __future__ import annotations

from langchain_core.tools import BaseTool

from deerflow.agent.context import RunContext
from deerflow.subagents.runner import SubagentExecutor
from deerflow.verify.checks import CodeChecker
from deerflow.verify.running import SandboxPython
from deerflow.verify.tool import verify_tools


def verifying_tools(executor: SubagentExecutor) -> list[BaseTool]:
    """`verify_answer`, with checks by code in the run's own sandbox."""
    return verify_tools(executor, _checker)


def _checker(run: RunContext) -> CodeChecker:
    """Its Python may have no sympy: such a check fails and says so."""
    return CodeChecker(SandboxPython(run.sandbox))
