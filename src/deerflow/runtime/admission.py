"""Admission: all is checked before anything is written; a resume goes on where the log ends.

`admit` and `resume` serve the process that also executes; `prepare` and `accept` are their two
halves where one process takes the request and another one executes the run.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from deerflow.agent.context import RunContext
from deerflow.errors import UsageError
from deerflow.middlewares.side_calls import recount_side_calls
from deerflow.middlewares.spending import open_account
from deerflow.runtime.checks import (
    asked_for,
    check_request,
    delegates,
    expected,
    no_thread,
    verifies,
)
from deerflow.runtime.goals import SessionGoal, goal_of
from deerflow.runtime.history import address, no_checkpoint
from deerflow.runtime.inputs import graph_input
from deerflow.runtime.outcome import scan_outputs
from deerflow.runtime.parts import Job, RunParts
from deerflow.runtime.recovery import DIED, note_logged
from deerflow.runtime.request import RunRequest
from deerflow.storage.owner import is_alive
from deerflow.storage.protocol import NewRun, RunRow, Storage, ThreadRow

MAX_MET = 10_000
"""Threads that are remembered to exist."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that may be submitted: nothing of it is written yet.

    Attributes:
        thread: its thread.
        new: whether the thread has to be made with it.
        run_id: hex of a UUID.
        input: the request as a JSON object.
        config: model, plan, max_turns, expect, agent, delegate, goal and verify, as settled.
        task: the request's words, or its goal's.
    """

    thread: ThreadRow
    new: bool
    run_id: str
    input: dict[str, Any]
    config: dict[str, Any]
    task: str

    def run(self, **options: Any) -> NewRun:
        """For `RunQueue.submit`; options are further fields of NewRun."""
        queued = {
            "input": self.task,
            "strategy": options.get("strategy", "reject"),
            "not_before": options.get("not_before"),
        }
        config = {**self.config, "strategy": queued["strategy"]}
        return NewRun(self.run_id, self.input, config, event=("run_queued", queued), **options)


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
        met = (request.user_id, request.thread_id) in self._met
        ready, skills = await self._settled(request, look=met)
        request, thread = replace(request, task=ready.task), ready.thread
        context = self._context(thread, ready.run_id, request, ready.config)
        context.skills = skills
        bare = ready.new or await _is_bare(parts.storage, thread, 0)
        outputs = context.folders.outputs
        before = {} if bare else await asyncio.to_thread(scan_outputs, outputs)
        buried = False if bare else await _bury(self._parts.storage, thread)
        given: dict[str, Any] = {"input": {"task": ready.task}, "config": ready.config}
        event, threads = ("run_started", _started(ready.task, ready.config)), parts.storage.threads
        if not ready.new:
            await threads.start_run(thread.thread_key, ready.run_id, **given, event=event)
        elif await threads.open_run(thread, ready.run_id, **given, event=event) is None:
            self._meet(thread)
            return await self.admit(request)  # it exists
        self._meet(thread)
        return Job(
            thread,
            context,
            graph_input(context, request, goal_of(request.goal)),
            thread.last_seq,
            request.uploads,
            before,
            buried,
            fresh=bare,
        )

    async def prepare(self, request: RunRequest) -> Prepared:
        """Check everything that can be refused; nothing is written.

        Raises:
            UsageError: empty task or bad upload.
            NotFoundError: unknown model or checkpoint.
        """
        ready, _ = await self._settled(request)
        await _state(self._parts.storage, ready.thread, request.checkpoint_id)
        return ready

    async def accept(self, row: RunRow, thread: ThreadRow) -> Job:
        """The job of a run that a worker has claimed; a run that had begun goes on.

        Raises:
            NotFoundError: the model is configured no more, the checkpoint was removed.
            StorageError: the database cannot be read or written.
        """
        parts = self._parts
        found = {**row.input, "user_id": thread.user_id, "thread_id": thread.thread_id}
        request = RunRequest.from_dict(found)
        parts.catalog.spec(str(row.config.get("model") or parts.catalog.default))
        context = self._context(thread, row.run_id, request, row.config)
        context.skills = (await parts.profile(thread.user_id, context.agent_name)).skills
        if has_begun(row):
            job = await self._again(thread, row, context, request)
            job.shared = True
            return job
        checkpoint_id = await _state(self._parts.storage, thread, request.checkpoint_id)
        context.emit("run_started", _started(request.task, row.config))
        fresh = await _is_bare(parts.storage, thread, 1)  # its own `run_queued`
        outputs = context.folders.outputs
        return Job(
            thread,
            context,
            graph_input(context, request, _goal(row)),
            thread.last_seq,
            request.uploads,
            {} if fresh else await asyncio.to_thread(scan_outputs, outputs),
            after_death=not fresh,
            fresh=fresh,
            checkpoint_id=checkpoint_id,
            shared=True,
        )

    async def _settled(
        self, request: RunRequest, *, look: bool = True
    ) -> tuple[Prepared, tuple[str, ...] | None]:
        """A request with all that was left open decided, and the skills that its lead may use.

        Unless `look`, its thread is taken for new: most that were never met are, and making it
        tells.
        """
        parts = self._parts
        await check_request(request, parts.config, parts.catalog)
        goal = goal_of(request.goal)
        if goal is not None and not request.task.strip():
            request = replace(request, task=goal.description)
        lead = await parts.profile(request.user_id, request.agent_name)
        model = request.model or lead.model or parts.catalog.default
        parts.catalog.spec(model)
        thread, new = await self._thread(request, look)
        folders = partial(parts.folders, request.user_id, thread.thread_key)
        expect = (*expected(request), *await asked_for(request, folders))
        config: dict[str, Any] = {
            "model": model,
            "plan": request.plan,
            "max_turns": request.max_turns or lead.max_turns or parts.config.max_turns,
            "expect": list(dict.fromkeys(expect)),
            "agent": request.agent_name,
            "delegate": delegates(request, parts.config),
        }
        if goal is not None:
            config["goal"] = asdict(goal)
        if verifies(request, parts.config):
            config["verify"] = True
        run_id = uuid.uuid4().hex
        ready = Prepared(thread, new, run_id, request.to_dict(), config, request.task)
        return ready, lead.skills

    def _meet(self, thread: ThreadRow) -> None:
        if len(self._met) >= MAX_MET:
            self._met.clear()
        self._met[thread.user_id, thread.thread_id] = None

    async def _thread(self, request: RunRequest, look: bool) -> tuple[ThreadRow, bool]:
        """The thread of a request; one that does not exist yet (True) is made with its run."""
        if look and request.thread_id is not None:
            threads = self._parts.storage.threads
            found = await threads.get(request.user_id, request.thread_id)
            if found is not None:
                return found, False
        return ThreadRow.new(request.user_id, request.thread_id or uuid.uuid4().hex), True

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
        config = {**row.config, "model": model}
        if request.max_turns is not None:
            config["max_turns"] = request.max_turns
        context = self._context(thread, row.run_id, request, config)
        context.skills = skills
        taken = False
        try:
            asked = RunRequest.from_dict(row.input)
            job = await self._again(thread, row, context, asked)
            taken = True
        finally:
            if not taken:  # nobody executes it: the next resume must not meet a living owner
                await parts.storage.threads.end_run(row.run_id, status="cancelled", outcome=None)
        return job

    async def _again(
        self, thread: ThreadRow, row: RunRow, context: RunContext, request: RunRequest
    ) -> Job:
        """The job of a run that had begun; `request` is what it was asked for then."""
        context.resumed = True
        await note_logged(context)
        await recount_side_calls(context)
        job_input = await self._input_again(context, request, row)
        last = await self._parts.storage.events.append(
            thread.thread_key,
            row.run_id,
            "run_started",
            {"input": request.task, "resumed": True, "model": context.model_name},
        )
        job = Job(thread, context, job_input, last.seq - 1, after_death=True)
        if job_input is not None:
            job.uploads = request.uploads
            job.checkpoint_id = await _state(self._parts.storage, thread, request.checkpoint_id)
        return job

    async def _input_again(
        self, context: RunContext, request: RunRequest, row: RunRow
    ) -> dict[str, Any] | None:
        """None when the checkpoint holds the run's input, else the input (killed too early)."""
        graph = await self._parts.agent(context)
        state = await graph.aget_state({"configurable": {"thread_id": context.thread_key}})
        messages = state.values.get("messages", ())
        if any(message.id == context.input_id for message in messages):
            return None
        return graph_input(context, request, _goal(row))

    def _context(
        self, thread: ThreadRow, run_id: str, request: RunRequest, settled: dict[str, Any]
    ) -> RunContext:
        """What the graph is given; `settled` is the run's `config`, and counts before `request`."""
        parts, config = self._parts, self._parts.config
        context = RunContext(
            user_id=thread.user_id,
            thread_id=thread.thread_id,
            thread_key=thread.thread_key,
            run_id=run_id,
            folders=parts.folders(thread.user_id, thread.thread_key),
            storage=parts.storage,
            provider=parts.provider,
            model_name=str(settled.get("model") or parts.catalog.default),
            expect=tuple(settled.get("expect", ())),
            title=thread.title,
            plan=bool(settled.get("plan", request.plan)),
            max_turns=int(settled.get("max_turns") or config.max_turns),
            agent_name=str(settled.get("agent") or ""),
            delegate=bool(settled.get("delegate", delegates(request, config))),
            thinking=request.context.get("thinking_enabled"),
            effort=str(request.context.get("reasoning_effort") or ""),
            most_children=request.context.get("max_total_subagents"),
            children_at_once=request.context.get("max_concurrent_subagents"),
            may_ask=not request.context.get("disable_clarification"),
            verify=bool(settled.get("verify", False)),
        )
        open_account(context, config.token_budget, config.subagents.token_budget)
        return context


def has_begun(row: RunRow) -> bool:
    """Whether a claimed run had begun before: its second claim, or a terminal started it.

    What a terminal starts never was pending, and its row holds no whole request.
    """
    return row.attempt > 1 or "user_id" not in row.input


async def _bury(storage: Storage, thread: ThreadRow) -> bool:
    """Close a run that a dead process left open; whether there was one."""
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


def _started(task: str, config: dict[str, Any]) -> dict[str, Any]:
    names = ("model", "plan", "max_turns", "expect")
    return {"input": task, "resumed": False, **{name: config.get(name) for name in names}}


def _goal(row: RunRow) -> SessionGoal | None:
    goal = row.config.get("goal")
    return SessionGoal(**goal) if goal else None


async def _state(storage: Storage, thread: ThreadRow, checkpoint_id: str | None) -> str | None:
    """The id of a state as the saver writes it; the graph would begin anew without one.

    Raises:
        NotFoundError: the thread has no such state.
    """
    if checkpoint_id is None:
        return None
    place = address(thread.thread_key, checkpoint_id)
    if await storage.saver.aget_tuple(place) is None:
        raise no_checkpoint(checkpoint_id)
    return str(place["configurable"]["checkpoint_id"])


async def _is_bare(storage: Storage, thread: ThreadRow, events: int) -> bool:
    """Whether a thread with at most so many events holds nothing that is to be taken up.

    A copy can have states without events.
    """
    if thread.last_seq > events:
        return False
    return await storage.saver.aget_tuple(address(thread.thread_key)) is None
