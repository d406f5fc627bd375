"""`task`: the lead hands one piece of work to a child."""

from __future__ import annotations

from langchain_core.tools import BaseTool

from deerflow.subagents.roster import Roster
from deerflow.subagents.runner import SubagentExecutor


def task_tools(executor: SubagentExecutor, roster: Roster) -> list[BaseTool]:
    """The `task` tool for the kinds of a roster."""
    del executor, roster
    return []
