"""Per-run facts that travel in the runtime context: handles, cursors and the event sink."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from deerflow.sandbox.protocol import Sandbox, SandboxProvider, ThreadFolders
from deerflow.storage.protocol import Storage

INPUT = "in-"
"""Prefix of the id of the human message that starts a run; the run's id follows."""

Audience = Literal["lead", "child"]


@dataclass(slots=True)
class RunContext:
    """One run of one agent. Made by the runner, never stored.

    Attributes:
        user_id: owner of the thread.
        thread_id: the client's thread id.
        thread_key: internal thread id.
        run_id: the run.
        folders: host folders of the thread (never shown to the model).
        storage: the process's stores (events, journal, blobs).
        provider: the process's sandbox provider.
        model_name: configured name of the model that the run starts with.
        agent: "lead" or the child's namespace.
        audience: which rows of THE LIST apply.
        resumed: True when the run continues after a kill or an interrupt.
        closing: True when only the open calls of a former run are answered: no tool, no model.
        expect: deliverables that were asked for, paths below outputs.
        plan: whether plan mode is on.
        max_turns: model turns that this run may take.
        turn: model turns so far (of this run).
        title: of the thread when the run began.
        cwd: virtual directory of the agent's shell, from the thread state.
        scratch: cursors of middlewares by class, rebuilt on resume; never in the state.
        bash_calls: tool_call_id → number of shell calls in its turn.
        logged: message id → the message as the log has it (filled on resume).
        completed: message and call ids whose `…_completed` event is in the log (filled on resume).
    """

    user_id: str
    thread_id: str
    thread_key: str
    run_id: str
    folders: ThreadFolders
    storage: Storage
    provider: SandboxProvider
    model_name: str
    agent: str = "lead"
    audience: Audience = "lead"
    resumed: bool = False
    closing: bool = False
    expect: tuple[str, ...] = ()
    plan: bool = False
    max_turns: int = 100
    turn: int = 0
    cwd: str = ""
    title: str = ""
    scratch: dict[type, Any] = field(default_factory=dict[type, Any])
    bash_calls: dict[str, int] = field(default_factory=dict[str, int])
    logged: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    completed: set[str] = field(default_factory=set[str])
    _sandbox: Sandbox | None = None

    @property
    def namespace(self) -> str:
        """Checkpoint namespace in journal keys: "" for the lead, else the child's name."""
        return "" if self.agent == "lead" else self.agent

    @property
    def input_id(self) -> str:
        """Id of the human message that started this run; turns are counted from it."""
        return INPUT + self.run_id

    async def sandbox(self) -> Sandbox:
        """The thread's sandbox, acquired on first use."""
        if self._sandbox is None:
            self._sandbox = await self.provider.acquire(self.thread_key, self.folders, cwd=self.cwd)
        return self._sandbox

    @property
    def sandbox_started(self) -> bool:
        """Whether this run has acquired the sandbox."""
        return self._sandbox is not None

    def alone(self, tool_call_id: str) -> bool:
        """Whether this call is the only shell call of its turn."""
        return self.bash_calls.get(tool_call_id, 1) <= 1

    def emit(self, type: str, payload: dict[str, Any]) -> None:
        """Queue an event of this run, in order; it becomes durable with the step."""
        self.storage.events.append(self.thread_key, self.run_id, type, payload)

    async def put_blob(self, data: bytes, media_type: str) -> str:
        """Store bytes once per user and return their sha256."""
        return await self.storage.blobs.put(self.user_id, self.thread_key, data, media_type)
