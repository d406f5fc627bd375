"""Row 1: the thread's folders, in the state under their virtual names."""

from __future__ import annotations

from typing import Any

from deerflow.agent.context import RunContext
from deerflow.agent.hooks import Middleware
from deerflow.agent.state import ThreadDataState
from deerflow.sandbox.protocol import OUTPUTS, UPLOADS, WORKSPACE

FOLDERS = ThreadDataState(workspace_path=WORKSPACE, uploads_path=UPLOADS, outputs_path=OUTPUTS)


class ThreadDataMiddleware(Middleware):
    """Tells state and clients where files are.

    Nothing is made on disk: the sandbox or the first upload makes the folders, so that a plain
    answer leaves none.
    """

    async def start(self, state: dict[str, Any], run: RunContext) -> dict[str, Any] | None:
        """Set `thread_data` once a thread."""
        return None if state.get("thread_data") == FOLDERS else {"thread_data": FOLDERS}
