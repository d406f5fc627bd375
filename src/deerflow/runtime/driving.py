"""Drives the graph of one run, and closes row and log in any case.

The graph knows nothing of run rows. A run that another worker is to go on with is left as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from langchain_core.messages import AnyMessage
from langgraph.errors import GraphDrained

from deerflow.agent.build import graph_steps
from deerflow.agent.context import RunContext
from deerflow.agent.record import shown
from deerflow.errors import DeerFlowError, LeaseLostError, StorageError
from deerflow.events import RunStatus
from deerflow.guardrails.approvals import decided_meanwhile, supersede
from deerflow.middlewares.token_usage import recount
from deerflow.runtime import changes
from deerflow.runtime.intake import copy_uploads
from deerflow.runtime.outcome import (
    answer_of,
    artifacts_of,
    last_turn,
    outcome_of,
    waiting_outcome,
)
from deerflow.runtime.parts import Graph, Job, RunParts
from deerflow.runtime.pursuit import Pursuit, answer_command
from deerflow.runtime.recovery import close_open_turn, lost_inputs, note_logged
from deerflow.runtime.request import Artifact, Outcome, RunResult
from deerflow.storage.protocol import CLOSING

logger = logging.getLogger(__name__)

T = TypeVar("T")

_READ = ("messages", "artifacts", "goal")
"""Channels that the runner reads."""


class Driver:
    """Brings jobs to their end."""

    def __init__(self, parts: RunParts) -> None:
        self._parts = parts

    async def execute(self, job: Job) -> RunResult:
        """Drive the graph. This is the runtime's edge: every error becomes the end of a run.

        Raises:
            CancelledError: the job was left to another worker (`Job.left`).
            GraphDrained: the graph stopped at a step border, as `Job.control` asked.
            StorageError: of a shared job; somebody can go on with it.
        """
        context = job.context
        try:
            end = await self._end(job)
        except BaseException:
            await _unbroken(self._parts.provider.release(context.thread_key))
            raise
        return await _unbroken(self._ended_and_released(job, end))

    async def _ended_and_released(self, job: Job, end: End) -> RunResult:
        try:
            return await self._ended(job, end)
        finally:
            await self._parts.provider.release(job.context.thread_key)

    async def _ended(self, job: Job, end: End) -> RunResult:
        """The run's end; a success whose last state could not be stored is an error."""
        try:
            return await self._close(job, end)
        except DeerFlowError as error:
            if end.status != "success" or (job.shared and is_fault(error)):
                raise
            return await self._close(job, End("error", error=error))

    async def _end(self, job: Job) -> End:
        context = job.context
        try:
            if job.shared:
                job.beginning = await changes.begun(
                    context.folders, context.run_id, resumed=context.resumed
                )
            return await self._drive(job)
        except asyncio.CancelledError:
            if job.left:
                raise
            return End("cancelled")
        except GraphDrained:
            raise
        except DeerFlowError as error:
            if job.shared and is_fault(error):
                raise
            return End("error", error=error)
        except Exception:
            logger.exception("run %s failed", context.run_id)
            return End("error", error=DeerFlowError("The run failed by an internal error."))

    async def _drive(self, job: Job) -> End:
        context = job.context
        if job.uploads:
            await asyncio.to_thread(copy_uploads, job.uploads, context.folders.uploads)
        graph = await self._parts.agent(context)
        goal = (job.input or {}).get("goal")
        # `_close` stores the last checkpoint; a goal is judged and an answer verified before that
        single = goal is None and not context.verify and not context.resumed
        place = {"thread_id": context.thread_key, CLOSING: single}
        config: Any = {
            "configurable": place,
            "recursion_limit": graph_steps(context.max_turns, len(graph.nodes)),
            "run_id": uuid.UUID(context.run_id),
        }
        if goal is not None and context.input_id not in context.logged:
            context.emit("goal", goal)
        if job.checkpoint_id is not None and job.input is not None:
            config["configurable"]["checkpoint_id"] = job.checkpoint_id
        if job.fresh and job.input is not None:
            for message in job.input["messages"]:
                context.emit("message", {"message": shown(message)})
        else:
            await self._take_up(job, graph, config)
        if await answer_command(graph, config, context, job.input):
            job.input = None
        values, interrupted, verified = await self._verified(job, graph, config)
        # a reply of a former process that no call came after
        recount(context, values.get("messages", ()), self._parts.catalog)
        messages = last_turn(values.get("messages", ()), context.input_id)
        status: RunStatus = "interrupted" if interrupted else "success"
        outcome = await self._outcome(context, messages, interrupted)
        if verified is not None:
            outcome = replace(outcome, detail={**outcome.detail, "verification": verified})
        presented = tuple(values.get("artifacts", ()))
        said = answer_of(messages)
        goal = values.get("goal")
        whole = tuple(values.get("messages", ())[-1 - len(messages) :])
        return End(status, outcome, said, presented, whole, goal=goal)

    async def _verified(
        self, job: Job, graph: Graph, config: Any
    ) -> tuple[dict[str, Any], bool, dict[str, Any] | None]:
        """Run to the answer, and where that is wanted have it verified; see `Verification.of`."""
        values, paused = await self._pursued(job, graph, config)
        children = self._parts.children
        if paused or not job.context.verify or children is None:
            return values, paused, None
        from deerflow.runtime.verification import Verification  # noqa: PLC0415  (2 MiB, 50 ms)

        async def go_on(given: dict[str, Any]) -> tuple[dict[str, Any], bool]:
            job.input = given
            return await self._pursued(job, graph, config)

        state, told = await Verification(job.context, children(), go_on).of(values)
        return *state, told

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
        values, paused = await _steps(graph, job, config)
        config["configurable"].pop("checkpoint_id", None)  # what follows stands on its end
        job.input = None
        while await decided_meanwhile(storage, context.user_id, context.thread_key, paused):
            context.resumed = True
            # awaited: whatever was queued before it is in the log when it is read
            await storage.events.append(*_goes_on(context))
            await note_logged(context)
            values, paused = await _steps(graph, job, config)
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
        if job.checkpoint_id is not None:  # what waits further on in the thread is left behind
            await supersede(context.storage, time.time(), context.thread_key)
        if await close_open_turn(graph, config, state, context):
            config["configurable"].pop("checkpoint_id", None)  # the closed turn is its successor
        given = list(messages)
        if job.after_death:
            messages[:0] = await lost_inputs(state, context)
        for message in given:
            if message.id not in context.logged:
                context.emit("message", {"message": shown(message)})

    async def _close(self, job: Job, end: End) -> RunResult:
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
        await self._tell_changes(job, end)
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

    @staticmethod
    async def _tell_changes(job: Job, end: End) -> None:
        context = job.context
        if job.beginning is not None:
            over = end.status != "interrupted"
            changed = await changes.ended(context.folders, context.run_id, job.beginning, over=over)
            if changed is not None:
                context.emit("workspace_changes", changed)


@dataclass(frozen=True, slots=True)
class End:
    """What `_drive` came to: status, outcome, answer, presented files, messages, error, goal."""

    status: RunStatus
    outcome: Outcome | None = None
    answer: str = ""
    presented: tuple[str, ...] = ()
    messages: tuple[AnyMessage, ...] = ()
    error: DeerFlowError | None = None
    goal: dict[str, Any] | None = None


async def _steps(graph: Graph, job: Job, config: Any) -> tuple[dict[str, Any], list[Any]]:
    """Run the graph; its last state, and the values of interrupts that wait for a human."""
    values: dict[str, Any] | None = None
    paused: list[Any] = []
    stream = cast("Any", graph).astream(
        job.input,
        config,
        context=job.context,
        stream_mode="values",
        output_keys=_READ,
        durability="sync",
        control=job.control,
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


def is_fault(error: DeerFlowError) -> bool:
    """Whether the store failed, or refused a worker that was given up, rather than the run."""
    return type(error) in (StorageError, LeaseLostError)


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
