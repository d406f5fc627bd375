"""Per-run facts that travel in the runtime context: handles, cursors and the event sink."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from deerflow.sandbox.protocol import Sandbox, SandboxProvider, ThreadFolders
from deerflow.storage.protocol import Storage

INPUT = "in-"
"""Prefix of the id of the human message that starts a run; the run's id follows."""

Audience = Literal["lead", "child"]

LEAD_ONLY = frozenset({"model_started", "model_completed", "tool_started", "tool_completed"})
"""Events that a child does not write: its messages tell the same."""


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
        completed: message and call ids whose `…_completed` event is in the log, ids of approvals
            that are in it, and `ID.decided` (filled on resume).
        agent_name: custom agent that leads this run, "" for the built-in one.
        delegate: whether the lead may hand work to children.
        parent: the run that this child works for; None for a lead.
        kind: kind of child, "" for a lead; usage is summed up under it.
        tasks: task_id → type of its newest `task_…` event but `task_running`, of this run (filled
            on resume, kept up to date by whoever writes one).
        batch_day: of a child that is an item of a batch: the batch's day, ISO 8601; "" for others.
            An item's requests read the same on every later day; it has no checkpoints, and of its
            messages the log holds failed results alone.
        skills: names that may be used, None for all.
        asked: whether a call of this process waited for a human (kept on the root).
        thinking: whether models that can think do; None as they do by themselves.
        effort: reasoning effort for models that take one, "" as they do by themselves.
        most_children: children that the client wants in all, None as configured.
        children_at_once: children of a turn that the client wants, None as configured.
        may_ask: whether the lead may end the run with a question to the user.
        verify: whether the answer is verified by somebody who sees the task alone.
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
    agent_name: str = ""
    delegate: bool = True
    parent: RunContext | None = None
    kind: str = ""
    tasks: dict[str, str] = field(default_factory=dict[str, str])
    batch_day: str = ""
    skills: tuple[str, ...] | None = None
    asked: bool = False
    thinking: bool | None = None
    effort: str = ""
    most_children: int | None = None
    children_at_once: int | None = None
    may_ask: bool = True
    verify: bool = False
    _sandbox: Sandbox | None = None

    @property
    def root(self) -> RunContext:
        """The lead's context: budgets and meters are kept in its scratch."""
        return self if self.parent is None else self.parent.root

    @property
    def caller(self) -> str:
        """Under what name usage is summed up: "lead", or the kind of child."""
        return self.kind or self.agent

    def child(self, agent: str, model_name: str, max_turns: int, *, kind: str = "") -> RunContext:
        """Context of a child: same thread, run and files; own rows, cursors and turns.

        Args:
            agent: namespace in journal keys and events; unique per call and the same after a kill.
            model_name: configured name.
            max_turns: model turns that it may take.
            kind: name of its kind.
        """
        return replace(
            self,
            agent=agent,
            audience="child",
            model_name=model_name,
            max_turns=max_turns,
            expect=(),
            plan=False,
            delegate=False,
            verify=False,
            turn=0,
            cwd="",
            title="",
            scratch={},
            bash_calls={},
            parent=self,
            kind=kind,
            _sandbox=None,
        )

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
        """Queue an event of this run, in order; it becomes durable with the step.

        A child's messages become `task_running` events, and all its events name it in `task_id`;
        what only a lead's reader follows (begun and finished turns and calls) is left out.
        """
        if self.parent is not None:
            if type in LEAD_ONLY:
                return
            if type == "message":
                type = "task_running"
                if self.batch_day and not self._failed(payload["message"]):
                    return
            payload = {"task_id": self.agent, **payload}
        self.storage.events.append(self.thread_key, self.run_id, type, payload)

    def _failed(self, message: dict[str, Any]) -> bool:
        """Whether this is a failed result; the journal has none of it, so a replay needs it."""
        if message.get("status") != "error":
            return False
        self.logged[str(message["id"])] = message
        return True

    async def put_blob(self, data: bytes, media_type: str) -> str:
        """Store bytes once per user and return their sha256."""
        return await self.storage.blobs.put(self.user_id, self.thread_key, data, media_type)
