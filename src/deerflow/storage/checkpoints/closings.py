"""Tells the checkpoint that closes a run: the end of the run is stored with it, and is waited for.

Nobody waits twice for one answer: whoever writes the end of a run says so beforehand, and that end
fails when its last checkpoint could not be stored (see `Threads.end_run`).
"""

from __future__ import annotations

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint

from deerflow.storage.protocol import CLOSING

_NEXT = ("branch:", "join:", "__")
"""How LangGraph names channels that make a further step: edges, joins, tasks that are sent."""


def closes(config: RunnableConfig, checkpoint: Checkpoint) -> bool:
    """Whether nothing of the graph follows this checkpoint but the end of its run."""
    if not config.get("configurable", {}).get(CLOSING):
        return False
    updated = checkpoint.get("updated_channels")
    return updated is not None and not any(name.startswith(_NEXT) for name in updated)
