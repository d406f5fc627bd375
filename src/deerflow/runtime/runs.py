"""Runs of this process: admission, execution, cancellation, resume, and the end that always comes.

The graph knows nothing of run rows; this module opens the row, drives the graph, and closes both in `finally`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.graph.state import CompiledStateGraph

from deerflow.agent.build import graph_steps
from deerflow.agent.context import RunContext
from deerflow.agent.deliverables import requested_files
from deerflow.config.schema import AppConfig
from deerflow.errors import ConflictError, DeerFlowError, NotFoundError, UsageError
from deerflow.events import Event, RunStatus
from deerflow.models.protocol import Catalog
from deerflow.runtime.intake import check_uploads, copy_uploads
from deerflow.runtime.outcome import answer_of, artifacts_of, last_turn, outcome_of, scan_outputs
from deerflow.runtime.request import Outcome, RunRequest, RunResult
from deerflow.sandbox.protocol import SandboxProvider, ThreadFolders
from deerflow.storage.protocol import Delta, RunRow, Storage, ThreadRow

logger = logging.getLogger(__name__)

Graph = CompiledStateGraph[Any, Any, Any, Any]


@dataclass(frozen=True, slots=True)
class RunParts:
    """What the runner drives.

    Attributes:
        config: the whole configuration (max_turns, uploads).
        storage: the stores.
        provider: the sandbox provider.
        catalog: the models.
        agent: compiled graph for (model name, plan).
        folders: host folders for (user_id, thread_key).
        usage: usage of a run read off its context, for the run row and event.
    """

    config: AppConfig
    storage: Storage
    provider: SandboxProvider
    catalog: Catalog
    agent: Callable[[str, bool], Awaitable[Graph]]
    folders: Callable[[str, str], ThreadFolders]
    usage: Callable[[RunContext], dict[str, Any]]


@dataclass(slots=True)
class _Job:
    """A run between its admission and its end."""

    thread: ThreadRow
    context: RunContext
    input: dict[str, Any] | None
    before: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])


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
        """Committed events of this run in order, ending with `run_ended`."""
        async for event in self._storage.events.follow(self._key, after=self._first):
            if event.run_id == self.run_id:
                yield event
                if event.type == "run_ended":
                    return

    async def deltas(self) -> AsyncIterator[Delta]:
        """Pieces of messages as they are committed; endless, to be cancelled by the reader."""
        async for delta in self._storage.deltas.follow(self._key):
            if delta.run_id == self.run_id:
                yield delta

    async def result(self) -> RunResult:
        """The end of the run. Cancelling the waiter does not cancel the run."""
        assert self._task is not None
        return await asyncio.shield(self._task)

    def cancel(self) -> None:
        """Stop: model stream, tools and sandbox end; everything so far is saved."""
        if self._task is not None:
            self._task.cancel()


class Runs:
    """Starts and finishes runs inside this process."""

    def __init__(self, parts: RunParts) -> None:
        self._parts = parts
        self._active: dict[str, asyncio.Task[RunResult]] = {}

    async def start(self, request: RunRequest) -> RunHandle:
        """Admit a run; it executes in the background.

        Raises:
            UsageError: empty task, bad upload, nothing to resume.
            NotFoundError: unknown thread (with resume) or model.
            ConflictError: the thread has an active run.
            StorageError: the database cannot be written.
        """
        job, handle = await (self._resume(request) if request.resume else self._admit(request))
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
        thread = await self._parts.storage.threads.get(user_id, thread_id)
        if thread is None:
            return False
        if thread.thread_key in self._active:
            raise ConflictError("The thread has an active run.", cure="Stop it first.")
        key = await self._parts.storage.threads.delete(user_id, thread_id)
        if key is not None:
            folder = self._parts.folders(user_id, key).root.parent
            await asyncio.to_thread(shutil.rmtree, folder, True)
        return key is not None

    # ---- admission -------------------------------------------------------------------------------------------

    async def _admit(self, request: RunRequest) -> tuple[_Job, RunHandle]:
        parts = self._parts
        if not request.task.strip():
            raise UsageError("The task is empty.", cure='Say what to do: deerflow run "TASK".')
        model = request.model or parts.catalog.default
        parts.catalog.spec(model)
        await asyncio.to_thread(check_uploads, request.uploads, parts.config.uploads)
        thread = await parts.storage.threads.ensure(
            request.user_id, request.thread_id or uuid.uuid4().hex
        )
        folders = parts.folders(request.user_id, thread.thread_key)
        run_id = uuid.uuid4().hex
        existing = await asyncio.to_thread(_names_in, folders)
        names = [path.name for path in request.uploads]
        expect = tuple(
            dict.fromkeys([*request.expect, *requested_files(request.task, {*existing, *names})])
        )
        context = self._context(thread, run_id, folders, request, model, expect)
        settings = {
            "model": model,
            "plan": request.plan,
            "max_turns": context.max_turns,
            "expect": list(expect),
        }
        started = {"input": request.task, "resumed": False, **settings}
        await parts.storage.threads.start_run(
            thread.thread_key,
            run_id,
            input={"task": request.task},
            config=settings,
            event=("run_started", started),
        )
        job = _Job(thread, context, _input(context, request.task))
        try:
            await asyncio.to_thread(copy_uploads, request.uploads, folders.uploads)
        except DeerFlowError as error:
            await self._close(job, "error", None, error=error)
            raise
        job.before = await asyncio.to_thread(scan_outputs, folders.outputs)
        return job, RunHandle(parts.storage, thread, run_id, thread.last_seq)

    async def _resume(self, request: RunRequest) -> tuple[_Job, RunHandle]:
        parts = self._parts
        if request.task.strip():
            raise UsageError("--resume continues the last task.", cure="Leave the task away.")
        thread = await parts.storage.threads.get(request.user_id, request.thread_id or "")
        if thread is None:
            raise NotFoundError(f"There is no thread {request.thread_id!r} here.")
        rows = await parts.storage.threads.runs(thread.thread_key, limit=1)
        if not rows or rows[0].status == "success":
            raise UsageError("Nothing to resume: the thread's last run is finished.")
        row = rows[0]
        model = request.model or str(row.config.get("model") or parts.catalog.default)
        parts.catalog.spec(model)
        await parts.storage.threads.reopen_run(thread.thread_key, row.run_id)
        folders = parts.folders(request.user_id, thread.thread_key)
        context = self._context(
            thread, row.run_id, folders, request, model, tuple(row.config.get("expect", ()))
        )
        context.resumed = True
        context.plan = bool(row.config.get("plan", request.plan))
        if request.max_turns is None:
            context.max_turns = int(row.config.get("max_turns", context.max_turns))
        await self._note_logged(context)
        job = _Job(thread, context, await self._resume_input(thread, row, context))
        last = await parts.storage.events.append(
            thread.thread_key,
            row.run_id,
            "run_started",
            {"input": row.input.get("task", ""), "resumed": True, "model": model},
        )
        return job, RunHandle(parts.storage, thread, row.run_id, last.seq - 1)

    async def _resume_input(
        self, thread: ThreadRow, row: RunRow, context: RunContext
    ) -> dict[str, Any] | None:
        """None when the checkpoint holds the run's input, else the input (killed before the first checkpoint)."""
        graph = await self._parts.agent(context.model_name, context.plan)
        state = await graph.aget_state({"configurable": {"thread_id": thread.thread_key}})
        messages = state.values.get("messages", ())
        if any(message.id == context.input_id for message in messages):
            return None
        return _input(context, str(row.input.get("task", "")))

    async def _note_logged(self, context: RunContext) -> None:
        """Fill `context.logged` with the messages of this run that the log has."""
        after = 0
        while events := await self._parts.storage.events.read(context.thread_key, after=after):
            for event in events:
                if event.run_id == context.run_id and event.type == "message":
                    context.logged.add(str(event.payload["message"].get("id")))
            after = events[-1].seq

    def _context(
        self,
        thread: ThreadRow,
        run_id: str,
        folders: ThreadFolders,
        request: RunRequest,
        model: str,
        expect: tuple[str, ...],
    ) -> RunContext:
        return RunContext(
            user_id=thread.user_id,
            thread_id=thread.thread_id,
            thread_key=thread.thread_key,
            run_id=run_id,
            folders=folders,
            storage=self._parts.storage,
            provider=self._parts.provider,
            model_name=model,
            expect=expect,
            plan=request.plan,
            max_turns=request.max_turns or self._parts.config.max_turns,
        )

    # ---- execution -------------------------------------------------------------------------------------------

    async def _execute(self, job: _Job) -> RunResult:
        """Drive the graph to its end. This is the runtime's edge: every error becomes the end of a run."""
        context = job.context
        try:
            result = await self._drive(job)
        except asyncio.CancelledError:
            result = await self._close(job, "cancelled", None)
        except DeerFlowError as error:
            result = await self._close(job, "error", None, error=error)
        except Exception:
            logger.exception("run %s failed", context.run_id)
            result = await self._close(
                job, "error", None, error=DeerFlowError("The run failed by an internal error.")
            )
        finally:
            await self._parts.provider.release(context.thread_key)
        return result

    async def _drive(self, job: _Job) -> RunResult:
        context = job.context
        graph = await self._parts.agent(context.model_name, context.plan)
        config: Any = {
            "configurable": {"thread_id": context.thread_key},
            "recursion_limit": graph_steps(context.max_turns, len(graph.nodes)),
            "run_id": uuid.UUID(context.run_id),
        }
        if job.input is not None and job.input["messages"][0].id not in context.logged:
            text = job.input["messages"][0].content
            context.emit(
                "message", {"message": {"type": "human", "id": context.input_id, "content": text}}
            )
        context.cwd = await self._cwd(graph, config, context)
        stream = graph.astream(
            job.input, config, context=context, stream_mode="custom", durability="sync"
        )
        async with contextlib.aclosing(stream):  # pyright: ignore[reportArgumentType]
            async for _ in stream:
                pass
        state = await graph.aget_state(config)
        messages = last_turn(state.values.get("messages", ()), context.input_id)
        outcome = await asyncio.to_thread(
            outcome_of, messages, context.folders.outputs, context.expect
        )
        status: RunStatus = "success"
        if outcome.kind == "waiting_for_human" and state.next:
            status = "interrupted"
        presented = state.values.get("artifacts", ())
        return await self._close(
            job, status, outcome, answer=answer_of(messages), presented=tuple(presented)
        )

    @staticmethod
    async def _cwd(graph: Graph, config: Any, context: RunContext) -> str:
        state = await graph.aget_state(config)
        return str(state.values.get("sandbox", {}).get("cwd", {}).get(context.agent, ""))

    async def _close(
        self,
        job: _Job,
        status: RunStatus,
        outcome: Outcome | None,
        *,
        answer: str = "",
        presented: tuple[str, ...] = (),
        error: DeerFlowError | None = None,
    ) -> RunResult:
        """Write the end of the run, event and row together, and read back what was delivered."""
        context = job.context
        artifacts = await asyncio.to_thread(
            artifacts_of, context.folders.outputs, presented, job.before
        )
        problem = None
        if error is not None:
            problem = {"code": error.code, "message": error.message, "cure": error.cure}
        usage = self._parts.usage(context)
        ended = {
            "status": status,
            "outcome": outcome.to_dict() if outcome else None,
            "usage": usage,
            "error": problem,
            "artifacts": [a.path for a in artifacts],
            "at": time.time(),
        }
        if artifacts:
            context.emit("artifacts", {"artifacts": [a.path for a in artifacts]})
        ended_row = self._parts.storage.threads.end_run(
            context.run_id,
            status=status,
            outcome=ended["outcome"],
            error=problem,
            usage=usage,
        )
        context.emit("run_ended", ended)
        await ended_row
        await self._parts.storage.flush()
        return RunResult(
            run_id=context.run_id,
            thread_id=context.thread_id,
            status=status,
            outcome=outcome,
            answer=answer,
            artifacts=artifacts,
            usage=usage,
            error=problem,
        )


def _input(context: RunContext, task: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(content=task, id=context.input_id)]}


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
