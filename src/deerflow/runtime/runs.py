"""Runs of this process: admission, execution, cancellation, resume, and the end that always comes.

The graph knows nothing of run rows; this module drives it, and closes row and log in any case.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import time
import uuid
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from langchain_core.messages import AnyMessage

from deerflow.agent.build import graph_steps
from deerflow.agent.context import RunContext
from deerflow.agent.record import shown
from deerflow.errors import ConflictError, DeerFlowError, UsageError
from deerflow.events import Event, RunStatus
from deerflow.guardrails.approvals import decided_meanwhile, supersede
from deerflow.middlewares.token_usage import recount
from deerflow.runtime.admission import Admission, Folders, Graph, Job, RunParts
from deerflow.runtime.intake import copy_uploads
from deerflow.runtime.outcome import (
    answer_of,
    artifacts_of,
    last_turn,
    outcome_of,
    waiting_outcome,
)
from deerflow.runtime.pursuit import Pursuit, answer_command
from deerflow.runtime.recovery import close_open_turn, lost_inputs, note_logged
from deerflow.runtime.request import Artifact, Outcome, RunRequest, RunResult
from deerflow.storage.owner import is_alive
from deerflow.storage.protocol import Delta, Storage, ThreadRow

logger = logging.getLogger(__name__)

T = TypeVar("T")

_READ = ("messages", "artifacts", "goal")
"""Channels that the runner reads."""


class RunHandle:
    """A started run: follow it, wait for it, stop it."""

    def __init__(self, storage: Storage, thread: ThreadRow, run_id: str, first: int) -> None:
        self.run_id = run_id
        self.thread_id = thread.thread_id
        self._storage = storage
        self._key = thread.thread_key
        self._first = first
        self._task: asyncio.Task[RunResult] | None = None

    def attach(self, task: asyncio.Task[RunResult]) -> None:
        """Tie the task that executes the run to its handle."""
        self._task = task

    async def events(self) -> AsyncIterator[Event]:
        """Committed events of this run in order, ending with `run_ended`.

        They end without it when the run's end could not be written; `result` then raises.
        """
        follower = aiter(self._storage.events.follow(self._key, after=self._first))
        seen = self._first
        while True:
            coming = asyncio.ensure_future(anext(follower))
            try:
                await asyncio.wait({coming, self._execution()}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                over = not coming.done()
                if over:
                    coming.cancel()
            if over:
                break
            event = coming.result()
            seen = event.seq
            if event.run_id == self.run_id:
                yield event
                if event.type == "run_ended":
                    return
        for event in await self._storage.events.read(self._key, after=seen):
            if event.run_id == self.run_id:
                yield event

    async def deltas(self) -> AsyncIterator[Delta]:
        """Pieces of messages as they are committed; endless, to be cancelled by the reader."""
        async for delta in self._storage.deltas.follow(self._key):
            if delta.run_id == self.run_id:
                yield delta

    async def result(self) -> RunResult:
        """The end of the run. Cancelling the waiter does not cancel the run."""
        return await asyncio.shield(self._execution())

    def _execution(self) -> asyncio.Task[RunResult]:
        if self._task is None:
            raise UsageError("The run has not been started.")
        return self._task

    def cancel(self) -> None:
        """Stop: model stream, tools and sandbox end; everything so far is saved."""
        if self._task is not None:
            self._task.cancel()


class Runs:
    """Starts and finishes runs inside this process."""

    def __init__(self, parts: RunParts) -> None:
        self._parts = parts
        self._admission = Admission(parts)
        self._active: dict[str, asyncio.Task[RunResult]] = {}

    async def start(self, request: RunRequest) -> RunHandle:
        """Admit a run; it executes in the background.

        Raises:
            UsageError: empty task, bad upload, nothing to resume.
            NotFoundError: unknown thread (with resume) or model.
            ConflictError: the thread has an active run.
            StorageError: the database cannot be written.
        """
        admission = self._admission
        job = await (admission.resume(request) if request.resume else admission.admit(request))
        handle = RunHandle(self._parts.storage, job.thread, job.context.run_id, job.first)
        task = asyncio.create_task(self._execute(job), name=f"run {handle.run_id}")
        key = job.thread.thread_key
        self._active[key] = task
        task.add_done_callback(lambda _: self._active.pop(key, None))
        handle.attach(task)
        await asyncio.sleep(0)  # the task is inside its `try` before anybody can cancel it
        return handle

    async def close(self) -> None:
        """Cancel what still runs and wait for its end."""
        tasks = list(self._active.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def delete_thread(self, user_id: str, thread_id: str) -> bool:
        """Remove a thread with everything of it. False when there is none.

        Raises:
            ConflictError: a run of it is active.
        """
        parts = self._parts
        return await remove_thread(parts.storage, parts.folders, user_id, thread_id)

    async def _execute(self, job: Job) -> RunResult:
        """Drive the graph. This is the runtime's edge: every error becomes the end of a run."""
        context = job.context
        try:
            end = await self._drive(job)
        except asyncio.CancelledError:
            end = _End("cancelled")
        except DeerFlowError as error:
            end = _End("error", error=error)
        except Exception:
            logger.exception("run %s failed", context.run_id)
            end = _End("error", error=DeerFlowError("The run failed by an internal error."))
        return await _unbroken(self._let_go(job, end))

    async def _drive(self, job: Job) -> _End:
        context = job.context
        if job.uploads:
            await asyncio.to_thread(copy_uploads, job.uploads, context.folders.uploads)
        graph = await self._parts.agent(context)
        config: Any = {
            "configurable": {"thread_id": context.thread_key},
            "recursion_limit": graph_steps(context.max_turns, len(graph.nodes)),
            "run_id": uuid.UUID(context.run_id),
        }
        goal = (job.input or {}).get("goal")
        if goal is not None and context.input_id not in context.logged:
            context.emit("goal", goal)
        if job.first == 0 and job.input is not None:  # a new thread: nothing to take up
            context.emit("message", {"message": shown(job.input["messages"][-1])})
        else:
            await self._take_up(job, graph, config)
        if await answer_command(graph, config, context, job.input):
            job.input = None
        values, interrupted = await self._pursued(job, graph, config)
        # a reply of a former process that no call came after
        recount(context, values.get("messages", ()), self._parts.catalog)
        messages = last_turn(values.get("messages", ()), context.input_id)
        status: RunStatus = "interrupted" if interrupted else "success"
        outcome = await self._outcome(context, messages, interrupted)
        presented = tuple(values.get("artifacts", ()))
        said = answer_of(messages)
        goal = values.get("goal")
        whole = tuple(values.get("messages", ())[-1 - len(messages) :])
        return _End(status, outcome, said, presented, whole, goal=goal)

    async def _pursued(self, job: Job, graph: Graph, config: Any) -> tuple[dict[str, Any], bool]:
        """Run the graph, and on as long as the session's goal asks for it."""
        pursuit = Pursuit(self._parts.catalog, graph, config, job.context)
        while True:
            values, paused = await self._through(job, graph, config)
            job.input = None if paused else await pursuit.next(values)
            if job.input is None:
                return values, paused

    async def _through(self, job: Job, graph: Graph, config: Any) -> tuple[dict[str, Any], bool]:
        """Run the graph until it ends or nothing but undecided calls is left.

        What is decided while other calls of the turn still run is carried out at once.
        """
        context, storage = job.context, self._parts.storage
        values, paused = await _steps(graph, job.input, config, context)
        while await decided_meanwhile(storage, context.user_id, context.thread_key, paused):
            context.resumed = True
            # awaited: whatever was queued before it is in the log when it is read
            await storage.events.append(*_goes_on(context))
            await note_logged(context)
            values, paused = await _steps(graph, None, config, context)
        return values, bool(paused)

    async def _outcome(
        self, context: RunContext, messages: list[AnyMessage], interrupted: bool
    ) -> Outcome:
        storage = self._parts.storage
        if interrupted:
            return await waiting_outcome(storage.approvals, context.user_id, context.thread_key)
        if context.asked or context.resumed:  # a child that was stopped waits no more
            await supersede(storage, time.time(), context.thread_key)
        ended = messages, context.folders.outputs, context.expect
        return await asyncio.to_thread(outcome_of, *ended) if context.expect else outcome_of(*ended)

    @staticmethod
    async def _take_up(job: Job, graph: Graph, config: Any) -> None:
        """Log the run's input, after what earlier runs left open; find the shell's directory."""
        context = job.context
        state = await graph.aget_state(config)
        context.cwd = str(state.values.get("sandbox", {}).get("cwd", {}).get(context.agent, ""))
        if job.input is None:
            return
        messages: list[AnyMessage] = job.input["messages"]
        await close_open_turn(graph, config, state, context)
        if job.after_death:
            messages[:0] = await lost_inputs(state, context)
        if context.input_id not in context.logged:
            context.emit("message", {"message": shown(messages[-1])})

    async def _let_go(self, job: Job, end: _End) -> RunResult:
        """Close the run; its processes end in any case."""
        try:
            return await self._close(job, end)
        finally:
            await self._parts.provider.release(job.context.thread_key)

    async def _close(self, job: Job, end: _End) -> RunResult:
        """Write the end of the run, event and row together, and read back what was delivered."""
        context, error = job.context, end.error
        artifacts: tuple[Artifact, ...] = ()
        if context.folders.root.exists():
            artifacts = await asyncio.to_thread(
                artifacts_of, context.folders.outputs, end.presented, job.before
            )
        problem = None
        if error is not None:
            problem = {"code": error.code, "message": error.message, "cure": error.cure}
        usage = self._parts.usage(context)
        ended: dict[str, Any] = {
            "status": end.status,
            "outcome": end.outcome.to_dict() if end.outcome else None,
            "usage": usage,
            "error": problem,
            "artifacts": [a.path for a in artifacts],
            "at": time.time(),
        }
        if artifacts:
            context.emit("artifacts", {"artifacts": [a.path for a in artifacts]})
        await self._parts.storage.threads.end_run(
            context.run_id,
            status=end.status,
            outcome=ended["outcome"],
            error=problem,
            usage=usage,
            event=("run_ended", ended),
        )
        return RunResult(
            run_id=context.run_id,
            thread_id=context.thread_id,
            status=end.status,
            outcome=end.outcome,
            text=end.answer,
            artifacts=artifacts,
            usage=usage,
            error=problem,
            messages=end.messages,
            goal=end.goal,
        )


@dataclass(frozen=True, slots=True)
class _End:
    """What `_drive` came to: status, outcome, answer, presented files, messages, error, goal."""

    status: RunStatus
    outcome: Outcome | None = None
    answer: str = ""
    presented: tuple[str, ...] = ()
    messages: tuple[AnyMessage, ...] = ()
    error: DeerFlowError | None = None
    goal: dict[str, Any] | None = None


async def _steps(
    graph: Graph, given: Any, config: Any, context: RunContext
) -> tuple[dict[str, Any], list[Any]]:
    """Run the graph; its last state, and the values of interrupts that wait for a human."""
    values: dict[str, Any] | None = None
    paused: list[Any] = []
    stream = cast("Any", graph).astream(
        given,
        config,
        context=context,
        stream_mode="values",
        output_keys=_READ,
        durability="sync",
    )
    async with contextlib.aclosing(stream):  # pyright: ignore[reportArgumentType]
        async for chunk in stream:
            if "__interrupt__" in chunk:
                paused += [pause.value for pause in chunk["__interrupt__"]]
            else:
                values = chunk
    if values is None:  # nothing was left to do
        values = dict((await graph.aget_state(config)).values)
    return values, paused


def _goes_on(context: RunContext) -> tuple[str, str, str, dict[str, Any]]:
    payload = {"input": "", "resumed": True, "model": context.model_name}
    return context.thread_key, context.run_id, "run_started", payload


async def _unbroken(work: Coroutine[Any, Any, T]) -> T:
    """Finish even when cancelled meanwhile: the end of a run is written once and whole."""
    task = asyncio.create_task(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({task})
    return task.result()


async def remove_thread(storage: Storage, folders: Folders, user_id: str, thread_id: str) -> bool:
    """Remove rows, checkpoints, blobs and folders of a thread; False when there is none.

    Raises:
        ConflictError: a living process executes a run of it.
    """
    thread = await storage.threads.get(user_id, thread_id)
    if thread is None:
        return False
    active = await storage.threads.active_run(thread.thread_key)
    if active is not None and is_alive(active.owner):
        raise ConflictError("The thread has an active run.", cure="Stop it first.")
    key = await storage.threads.delete(user_id, thread_id)
    if key is not None:
        await asyncio.to_thread(shutil.rmtree, folders(user_id, key).root.parent, True)
    return key is not None
