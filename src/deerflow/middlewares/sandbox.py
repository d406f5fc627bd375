"""Row 3: acquires the sandbox for the first tool that needs it; the runner releases it."""

from __future__ import annotations

from typing import Any, cast

from langchain.agents.middleware.types import ToolCallRequest

from deerflow.agent.context import RunContext
from deerflow.agent.hooks import Middleware, ToolNext, ToolResult
from deerflow.agent.journal import marks_of
from deerflow.agent.state import SandboxState
from deerflow.errors import SandboxError
from deerflow.middlewares.results import refusal


class SandboxMiddleware(Middleware):
    """A plain answer starts no sandbox; a tool with the mark does, where the shell last stood."""

    async def tool(self, request: ToolCallRequest, next_: ToolNext, run: RunContext) -> ToolResult:
        """Acquire; a failure is answered here, because row 23 stands further in."""
        if marks_of(request).get("sandbox") and not run.sandbox_started:
            run.cwd = _cwd(request.state, run) or run.cwd
            try:
                await run.sandbox()
            except SandboxError as error:
                return refusal(request, f"Error: {error}")
        return await next_(request)


def _cwd(state: Any, run: RunContext) -> str:
    sandbox = cast("SandboxState", state.get("sandbox") or {})
    return sandbox.get("cwd", {}).get(run.agent, "")
