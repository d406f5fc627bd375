"""Admission: all is checked before anything is written; a resume goes on where the log ends."""

from __future__ import annotations

import asyncio
import posixpath
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from langchain_core.messages import HumanMessage
from langgraph.graph.state import CompiledStateGraph

from deerflow.agent.context import RunContext
from deerflow.agent.deliverables import OUTPUTS, requested_files
from deerflow.config.schema import AppConfig
from deerflow.errors import NotFoundError, UsageError
from deerflow.middlewares.requests import compact_hint
from deerflow.middlewares.side_calls import recount_side_calls
from deerflow.middlewares.spending import open_account
from deerflow.models.protocol import Catalog
from deerflow.runtime.goals import SessionGoal, command_of, goal_of
from deerflow.runtime.intake import check_uploads
from deerflow.runtime.outcome import scan_outputs
from deerflow.runtime.recovery import DIED, note_logged
from deerflow.runtime.request import RunRequest
from deerflow.sandbox.protocol import SandboxProvider, ThreadFolders
from deerflow.storage.owner import is_alive
from deerflow.storage.protocol import RunRow, Storage, ThreadRow

Graph = CompiledStateGraph[Any, Any, Any, Any]
Folders = Callable[[str, str], ThreadFolders]

MAX_MET = 10_000
"""Threads that are remembered to exist."""
MAX_ID = 255
"""Characters of a thread id at most."""


class Lead(Protocol):
    """What admission asks of who leads: see `deerflow.lead.profiles.LeadProfile`."""

    @property
    def model(self) -> str | None:
        """Configured name or None."""
        ...

    @property
    def skills(self) -> tuple[str, ...] | None:
        """Names it may use, None for all."""
        ...

    @property
    def max_turns(self) -> int | None:
        """Model turns or None."""
        ...


@dataclass(frozen=True, slots=True)
class RunParts:
    """What the runner drives.

    Attributes:
        config: the whole configuration (max_turns, uploads).
        storage: the stores.
        provider: the sandbox provider.
        catalog: the models.
        agent: compiled graph for a run.
        folders: host folders for (user_id, thread_key).
        usage: usage of a run read off its context, for the run row and event.
        profile: who leads, for (user_id, name of a custom agent or "").
    """

    config: AppConfig
    storage: Storage
    provider: SandboxProvider
    catalog: Catalog
    agent: Callable[[RunContext], Awaitable[Graph]]
    folders: Folders
    usage: Callable[[RunContext], dict[str, Any]]
    profile: Callable[[str, str], Awaitable[Lead]]


@dataclass(slots=True)
class Job:
    """A run between its admission and its end.

    Attributes:
        thread: its thread.
        context: what the graph is given.
        input: for the graph; None continues from the checkpoint.
        first: seq before its first event.
        uploads: host files still to be copied.
        before: files in outputs when it began, see `scan_outputs`.
        after_death: whether the run before it, or its own first attempt, was cut off by a kill.
    """

    thread: ThreadRow
    context: RunContext
    input: dict[str, Any] | None
    first: int
    uploads: tuple[Path, ...] = ()
    before: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    after_death: bool = False


class Admission:
    """Turns requests into jobs. One a process: it knows which threads it has met."""

    def __init__(self, parts: RunParts) -> None:
        self._parts = parts
        self._met: dict[tuple[str, str], None] = {}

    async def admit(self, request: RunRequest) -> Job:
        """A new run of a new or existing thread; its row and first event are written.

        Raises:
            UsageError: empty task or bad upload.
            NotFoundError: unknown model.
            ConflictError: the thread has an active run.
            StorageError: the database or the uploads folder cannot be written.
        """
        parts = self._parts
        await check_request(request, parts.config, parts.catalog)
        goal = goal_of(request.goal)
        if goal is not None and not request.task.strip():
            request = replace(request, task=goal.description)
        lead = await parts.profile(request.user_id, request.agent_name)
        model = request.model or lead.model or parts.catalog.default
        parts.catalog.spec(model)
        thread, new = await self._thread(request)
        folders = parts.folders(request.user_id, thread.thread_key)
        run_id = uuid.uuid4().hex
        expect = (*expected(request), *await _asked_for(request, folders))
        expect = tuple(dict.fromkeys(expect))
        context = self._context(thread, run_id, folders, request, model, expect)
        context.skills = lead.skills
        context.max_turns = request.max_turns or lead.max_turns or context.max_turns
        settings: dict[str, Any] = {
            "model": model,
            "plan": request.plan,
            "max_turns": context.max_turns,
            "expect": list(expect),
        }
        started = {"input": request.task, "resumed": False, **settings}
        settings |= {"agent": context.agent_name, "delegate": context.delegate}
        if goal is not None:
            settings["goal"] = asdict(goal)
        bare = thread.last_seq == 0  # a thread without a run has nothing to look at
        before = {} if bare else await asyncio.to_thread(scan_outputs, folders.outputs)
        buried = False if bare else await self._bury(thread)
        given: dict[str, Any] = {"input": {"task": request.task}, "config": settings}
        event, threads = ("run_started", started), parts.storage.threads
        if not new:
            await threads.start_run(thread.thread_key, run_id, **given, event=event)
        elif await threads.open_run(thread, run_id, **given, event=event) is None:
            self._meet(thread)
            return await self.admit(request)  # it exists
        self._meet(thread)
        first, given = thread.last_seq, _input(context, request.task, goal)
        return Job(thread, context, given, first, request.uploads, before, buried)

    async def _thread(self, request: RunRequest) -> tuple[ThreadRow, bool]:
        """The thread of a request; one never met here is taken for new (True): making it tells."""
        if request.thread_id is not None and (request.user_id, request.thread_id) in self._met:
            threads = self._parts.storage.threads
            found = await threads.get(request.user_id, request.thread_id)
            if found is not None:
                return found, False
        return ThreadRow.new(request.user_id, request.thread_id or uuid.uuid4().hex), True

    def _meet(self, thread: ThreadRow) -> None:
        if len(self._met) >= MAX_MET:
            self._met.clear()
        self._met[thread.user_id, thread.thread_id] = None

    async def _bury(self, thread: ThreadRow) -> bool:
        """Close a run that a dead process left open; whether there was one."""
        storage = self._parts.storage
        left = await storage.threads.active_run(thread.thread_key)
        if left is None or is_alive(left.owner):
            return False
        ended: dict[str, Any] = {
            "status": "error",
            "outcome": None,
            "usage": {},
            "error": DIED,
            "artifacts": [],
            "at": time.time(),
        }
        event = ("run_ended", ended)
        await storage.threads.end_run(
            left.run_id, status="error", outcome=None, error=DIED, event=event
        )
        return True

    async def resume(self, request: RunRequest) -> Job:
        """The last run of a thread, taken over where it stopped.

        Raises:
            UsageError: nothing to resume.
            NotFoundError: unknown thread or model.
            ConflictError: a living process executes it.
        """
        parts = self._parts
        await check_request(request, parts.config, parts.catalog)
        thread = await parts.storage.threads.get(request.user_id, request.thread_id or "")
        if thread is None:
            raise no_thread(request.thread_id)
        rows = await parts.storage.threads.runs(thread.thread_key, limit=1)
        if not rows or rows[0].status == "success":
            raise UsageError(
                "Nothing to resume: the thread's last run is finished.",
                cure="Give the thread a new task.",
            )
        row = rows[0]
        model = request.model or str(row.config.get("model") or parts.catalog.default)
        parts.catalog.spec(model)
        agent = str(row.config.get("agent") or "")
        skills = (await parts.profile(request.user_id, agent)).skills  # it may be gone by now
        await parts.storage.threads.reopen_run(thread.thread_key, row.run_id)
        folders = parts.folders(request.user_id, thread.thread_key)
        context = self._context(
            thread, row.run_id, folders, request, model, tuple(row.config.get("expect", ()))
        )
        context.resumed = True
        context.plan = bool(row.config.get("plan", request.plan))
        context.agent_name = agent
        context.skills = skills
        context.delegate = bool(row.config.get("delegate", context.delegate))
        if request.max_turns is None:
            context.max_turns = int(row.config.get("max_turns", context.max_turns))
        taken = False
        try:
            await note_logged(context)
            await recount_side_calls(context)
            job_input = await self._resume_input(thread, row, context)
            last = await parts.storage.events.append(
                thread.thread_key,
                row.run_id,
                "run_started",
                {"input": row.input.get("task", ""), "resumed": True, "model": model},
            )
            taken = True
        finally:
            if not taken:  # nobody executes it: the next resume must not meet a living owner
                await parts.storage.threads.end_run(row.run_id, status="cancelled", outcome=None)
        return Job(thread, context, job_input, last.seq - 1, after_death=True)

    async def _resume_input(
        self, thread: ThreadRow, row: RunRow, context: RunContext
    ) -> dict[str, Any] | None:
        """None when the checkpoint holds the run's input, else the input (killed too early)."""
        graph = await self._parts.agent(context)
        state = await graph.aget_state({"configurable": {"thread_id": thread.thread_key}})
        messages = state.values.get("messages", ())
        if any(message.id == context.input_id for message in messages):
            return None
        goal = row.config.get("goal")
        return _input(
            context, str(row.input.get("task", "")), SessionGoal(**goal) if goal else None
        )

    def _context(
        self,
        thread: ThreadRow,
        run_id: str,
        folders: ThreadFolders,
        request: RunRequest,
        model: str,
        expect: tuple[str, ...],
    ) -> RunContext:
        context = RunContext(
            user_id=thread.user_id,
            thread_id=thread.thread_id,
            thread_key=thread.thread_key,
            run_id=run_id,
            folders=folders,
            storage=self._parts.storage,
            provider=self._parts.provider,
            model_name=model,
            expect=expect,
            title=thread.title,
            plan=request.plan,
            max_turns=request.max_turns or self._parts.config.max_turns,
            agent_name=request.agent_name,
            delegate=delegates(request, self._parts.config),
        )
        config = self._parts.config
        open_account(context, config.token_budget, config.subagents.token_budget)
        return context


async def check_request(request: RunRequest, config: AppConfig, catalog: Catalog) -> None:
    """Refuse what can be refused before anything is written or opened.

    Raises:
        UsageError: empty task, bad upload, thread id, goal, deliverable or number, or what a
            resume cannot take.
        NotFoundError: unknown model.
    """
    name = request.thread_id
    if name is not None and (not name.strip() or len(name) > MAX_ID or not name.isprintable()):
        raise UsageError(
            f"A thread id has 1 to {MAX_ID} printable characters.",
            cure="Leave it away to start a new thread.",
        )
    if request.max_turns is not None and request.max_turns < 1:
        raise UsageError("A run needs at least one model turn.", cure="Raise max_turns.")
    if request.resume:
        _check_resume(request)
    elif not request.task.strip() and request.goal is None:
        raise UsageError("The task is empty.", cure='Say what to do: deerflow run "TASK".')
    goal_of(request.goal)
    command_of(request.task)
    expected(request)
    if not request.resume or request.model:
        catalog.spec(request.model or catalog.default)
    if request.uploads:
        await asyncio.to_thread(check_uploads, request.uploads, config.uploads)


def _check_resume(request: RunRequest) -> None:
    further = request.uploads or request.expect or request.plan or request.goal is not None
    if request.task.strip() or further:
        raise UsageError(
            "A resume continues the last task as it was asked: it takes no task, upload, "
            "expected file, plan or goal.",
            cure="Leave them away, or give the thread a new task.",
        )
    if request.thread_id is None:
        raise UsageError(
            "A resume needs the thread.", cure="`deerflow threads list` shows the threads."
        )


def delegates(request: RunRequest, config: AppConfig) -> bool:
    """Whether the lead of this run may hand work to children."""
    return config.subagents.enabled if request.delegate is None else request.delegate


def no_thread(thread_id: str | None) -> NotFoundError:
    """The one way to say that a thread does not exist or is someone else's."""
    return NotFoundError(
        f"There is no thread {thread_id!r} here.",
        cure="`deerflow threads list` shows the threads of this home.",
    )


def expected(request: RunRequest) -> tuple[str, ...]:
    """Names below outputs that the caller expects.

    Raises:
        UsageError: a name that is empty or leaves outputs.
    """
    names: list[str] = []
    for given in request.expect:
        name = posixpath.normpath(given.removeprefix(OUTPUTS)) if given.strip() else ""
        outside = name in ("", ".", "..") or name.startswith(("/", "../"))
        if outside or not name.isprintable():
            raise UsageError(
                f"{given!r} is no file below outputs.", cure="Give a name like report.md."
            )
        names.append(name)
    return tuple(names)


def _input(context: RunContext, task: str, goal: SessionGoal | None = None) -> dict[str, Any]:
    given: dict[str, Any] = {"messages": [HumanMessage(content=task, id=context.input_id)]}
    return given if goal is None else {**given, "goal": goal.begun(context.run_id)}


async def _asked_for(request: RunRequest, folders: ThreadFolders) -> tuple[str, ...]:
    """Files that the task asks for; what the thread has already is a source."""
    if compact_hint(request.task) is not None or not requested_files(request.task):
        return ()
    existing = await asyncio.to_thread(_names_in, folders)
    existing.update(path.name for path in request.uploads)
    return requested_files(request.task, existing)


def _names_in(folders: ThreadFolders) -> set[str]:
    """File names in uploads and workspace (two levels), which a task may mention as sources."""
    names: set[str] = set()
    for folder in (folders.uploads, folders.workspace):
        if folder.is_dir():
            names.update(_below(folder))
    return names


def _below(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir() if not p.name.startswith(".")} | {
        p.relative_to(folder).as_posix() for p in folder.glob("*/*")
    }
