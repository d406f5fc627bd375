"""`task_batch`: hundreds of independent items as one durable job."""

from __future__ import annotations

from langchain_core.tools import BaseTool

from deerflow.config.schema import BatchConfig
from deerflow.subagents.roster import Roster
from deerflow.subagents.runner import SubagentExecutor


def batch_tools(executor: SubagentExecutor, roster: Roster, config: BatchConfig) -> list[BaseTool]:
    """The `task_batch` tool."""
    del executor, roster, config
    return []
