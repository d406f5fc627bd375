"""What a tool may ask of the run that calls it.

Tools are plain LangChain tools whose coroutine takes `runtime: ToolRuntime[ToolContext, Any]`;
`runtime.context` is the object below (the kernel's RunContext fits it). They return text, or a
`Command` with a state update and the ToolMessage. Optional marks live in `tool.metadata`: see
`ToolMarks`.
"""

from __future__ import annotations

from typing import Any, Protocol, TypedDict, runtime_checkable

from deerflow.sandbox.protocol import Sandbox


class ToolMarks(TypedDict, total=False):
    """Marks in `tool.metadata["deerflow"]`, all optional.

    Attributes:
        idempotent: True when running it twice does no harm (reads); the journal writes no start
            row.
        sandbox: True when it needs the sandbox (row 3 acquires it, row 19 audits it).
        untrusted: True when its output comes from outside (row 22 delimits it).
        ends_run: True for ask_clarification (row 26).
        deferred: True when row 11 hides it until `tool_search` finds it.
    """

    idempotent: bool
    sandbox: bool
    untrusted: bool
    ends_run: bool
    deferred: bool


@runtime_checkable
class ToolContext(Protocol):
    """Per-run facts that tools use."""

    user_id: str
    thread_id: str
    thread_key: str
    run_id: str
    agent: str

    async def sandbox(self) -> Sandbox:
        """The thread's sandbox, acquired on first use."""
        ...

    def alone(self, tool_call_id: str) -> bool:
        """Whether this call is the only `bash` call of its turn."""
        ...

    def emit(self, type: str, payload: dict[str, Any]) -> None:
        """Queue an event of this run."""
        ...

    async def put_blob(self, data: bytes, media_type: str) -> str:
        """Store bytes once per user and return their sha256."""
        ...
