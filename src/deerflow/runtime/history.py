"""States of threads as clients read them, and what they may write into them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from langchain_core.messages import AnyMessage
from langgraph.graph import END, START, StateGraph
from langgraph.types import StateSnapshot

from deerflow.agent.context import RunContext
from deerflow.agent.record import shown
from deerflow.agent.state import ThreadState
from deerflow.errors import ConflictError, NotFoundError, UsageError
from deerflow.runtime.goals import SessionGoal
from deerflow.runtime.parts import Graph, RunParts
from deerflow.runtime.updates import NODES, read_update
from deerflow.storage.protocol import ThreadRow

PUBLIC = ("title", "messages", "artifacts", "todos", "goal", "uploaded_files")
"""Channels that clients read; the others are the agent's own."""
MOST = 1_000
"""States of a thread that one call gives at most."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A state of a thread.

    Attributes:
        checkpoint_id: its id.
        parent_checkpoint_id: the state before it, None for the first.
        values: public channels; messages are LangChain objects.
        next: nodes that are due: () when the turn is over.
        metadata: source ("input", "loop", "update", "fork"), step, run_id and the like.
        created_at: ISO 8601.
        tasks: what is due: {id, name, error, interrupts, checkpoint, state, result}.
        interrupts: what waits for a human: {id, value}.
    """

    checkpoint_id: str
    parent_checkpoint_id: str | None
    values: dict[str, Any]
    next: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    created_at: str = ""
    tasks: tuple[dict[str, Any], ...] = ()
    interrupts: tuple[dict[str, Any], ...] = ()


class Histories:
    """States of threads: the newest, earlier ones, and changes from outside of a run.

    Args:
        parts: what runs are driven with.
    """

    def __init__(self, parts: RunParts) -> None:
        self._parts = parts
        self._reader = reader(parts)

    async def state(self, thread: ThreadRow, checkpoint_id: str | None = None) -> Snapshot | None:
        """The newest state, or that of a checkpoint; None when the thread has none yet.

        Raises:
            NotFoundError: the thread has no such checkpoint.
        """
        found = await self._reader.aget_state(address(thread.thread_key, checkpoint_id))
        if found.created_at is None:
            if checkpoint_id is not None:
                raise no_checkpoint(checkpoint_id)
            return None
        return _snapshot(found, thread if checkpoint_id is None else None)

    async def history(
        self,
        thread: ThreadRow,
        *,
        limit: int = 10,
        before: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[Snapshot]:
        """States, newest first.

        Args:
            thread: the thread.
            limit: how many at most.
            before: id of a checkpoint; only older ones.
            metadata: only states whose metadata have exactly these values.

        Raises:
            UsageError: `limit` out of range.
            NotFoundError: `before` is no id of a checkpoint.
        """
        if not 1 <= limit <= MOST:
            raise UsageError(f"`limit` is 1 to {MOST}, not {limit}.")
        config = address(thread.thread_key)
        until = address(thread.thread_key, before) if before else None
        listing = self._reader.aget_state_history(
            config, filter=dict(metadata) if metadata else None, before=until, limit=limit
        )
        newest = None if before or metadata else thread
        found: list[Snapshot] = []
        async for state in listing:
            found.append(_snapshot(state, None if found else newest))
        return found

    async def update(
        self,
        thread: ThreadRow,
        values: Mapping[str, Any] | None,
        *,
        as_node: str | None = None,
        checkpoint_id: str | None = None,
    ) -> Snapshot:
        """Write into a thread that nothing runs in; the log tells readers.

        Args:
            thread: the thread.
            values: any of title, messages (as clients send them), artifacts and todos.
            as_node: "model" or "tools", which has to be gone on with then; None leaves the turn
                ended.
            checkpoint_id: write onto this state; it becomes the newest one.

        Raises:
            ConflictError: a run of the thread is unfinished, or a call in it waits for a human.
            UsageError: unknown channel or node, or a value of the wrong form.
            NotFoundError: the thread has no such checkpoint.
        """
        given = dict(values or {})
        await self._free(thread)
        update = read_update(given, as_node)
        title = update.pop("title", None)
        if update or checkpoint_id or as_node:
            await self._write(thread, update, as_node, checkpoint_id)
        if title is not None:
            await self.rename(thread, title)
        written = await self._parts.storage.threads.by_key(thread.thread_key)
        found = await self.state(written or thread)
        return found or Snapshot("", None, {"title": title or thread.title, "messages": []})

    async def rename(self, thread: ThreadRow, title: str) -> None:
        """Give the thread a title: its row has the one that counts."""
        storage = self._parts.storage
        storage.threads.update(thread.thread_key, title=title)
        await storage.events.append(thread.thread_key, "", "title", {"title": title})

    async def fork(self, thread: ThreadRow, checkpoint_id: str, run_id: str = "") -> None:
        """Make an earlier state the newest one, as the first checkpoint of a run.

        Raises:
            NotFoundError: the thread has no such checkpoint.
        """
        await fork(self._reader, thread.thread_key, checkpoint_id, run_id)

    # --- the session's goal ---

    async def goal(self, thread: ThreadRow) -> dict[str, Any] | None:
        """The goal of a thread, None when it has none."""
        found = await self.state(thread)
        return found.values.get("goal") if found is not None else None

    async def set_goal(self, thread: ThreadRow, goal: SessionGoal) -> dict[str, Any]:
        """Set the goal; the thread's next run pursues it. Raises like `update`."""
        await self._free(thread)
        begun: dict[str, Any] = {**goal.begun("")}
        await self._write(thread, {"goal": begun}, None, None)
        await self._parts.storage.events.append(thread.thread_key, "", "goal", begun)
        return begun

    async def clear_goal(self, thread: ThreadRow) -> None:
        """Drop the goal; nothing when there is none. Raises like `update`."""
        before = await self.goal(thread)
        if before is None:
            return
        await self._free(thread)
        await self._write(thread, {"goal": None}, None, None)
        cleared = {**before, "status": "cleared"}
        await self._parts.storage.events.append(thread.thread_key, "", "goal", cleared)

    # --- within ---

    async def _free(self, thread: ThreadRow) -> None:
        await refuse_busy(self._parts, thread)

    async def _write(
        self,
        thread: ThreadRow,
        update: dict[str, Any],
        as_node: str | None,
        checkpoint_id: str | None,
    ) -> None:
        """One update of the state, with the events of its messages."""
        config = address(thread.thread_key, checkpoint_id)
        if checkpoint_id is not None and (
            (await self._reader.aget_state(config)).created_at is None
        ):
            raise no_checkpoint(checkpoint_id)
        graph = await graph_of(self._parts, thread)
        await graph.aupdate_state(config, update, as_node=as_node or "model")
        config = address(thread.thread_key)
        if as_node is None and (await graph.aget_state(config)).next:
            await graph.aupdate_state(config, None, as_node=END)
        written = None
        for message in cast("list[AnyMessage]", update.get("messages", ())):
            if message.type in ("human", "ai", "tool"):
                payload = {"message": shown(message)}
                written = self._parts.storage.events.append(
                    thread.thread_key, "", "message", payload
                )
        for name in ("todos", "artifacts"):
            if name in update:
                written = self._parts.storage.events.append(
                    thread.thread_key, "", name, {name: update[name]}
                )
        if written is not None:
            await written


def reader(parts: RunParts) -> Graph:
    """A graph that reads states of threads: it needs no model, and nothing runs in it.

    The nodes have the names of the agent's, so that what is due is told as it is; values of
    channels that it does not know are left alone, so it must not update.
    """

    def nothing(state: Any) -> dict[str, Any]:
        del state
        return {}

    made: Any = StateGraph(ThreadState)
    for node in NODES:
        made.add_node(node, nothing)
        made.add_edge(node, END)
    made.add_edge(START, "model")
    return made.compile(checkpointer=parts.storage.saver)


async def graph_of(parts: RunParts, thread: ThreadRow) -> Graph:
    """The agent's own graph for a thread, with every channel that it has.

    Raises:
        NotFoundError, ConfigError: no model is configured, or it cannot be built.
    """
    folders = parts.folders(thread.user_id, thread.thread_key)
    context = RunContext(
        user_id=thread.user_id,
        thread_id=thread.thread_id,
        thread_key=thread.thread_key,
        run_id="",
        folders=folders,
        storage=parts.storage,
        provider=parts.provider,
        model_name=parts.catalog.default,
    )
    return await parts.agent(context)


async def refuse_busy(parts: RunParts, thread: ThreadRow) -> None:
    """Raise ConflictError while a run of the thread is unfinished or waits for a human."""
    run = await parts.storage.threads.active_run(thread.thread_key)
    if run is not None:
        raise ConflictError(
            "A run of this thread is active.", cure="Wait for its end, or cancel it."
        )
    waiting = await parts.storage.approvals.list(
        thread.user_id, thread_key=thread.thread_key, limit=1
    )
    if waiting:
        raise ConflictError(
            "A call in this thread waits for a human.", cure="Decide over it first."
        )


def address(thread_key: str, checkpoint_id: str | None = None) -> Any:
    """LangGraph's config of a thread, or of one of its checkpoints.

    Raises:
        NotFoundError: what is given can be no checkpoint's id.
    """
    place: dict[str, Any] = {"thread_id": thread_key, "checkpoint_ns": ""}
    if checkpoint_id is not None:
        try:
            place["checkpoint_id"] = str(uuid.UUID(checkpoint_id))
        except ValueError:
            raise no_checkpoint(checkpoint_id) from None
    return {"configurable": place}


async def fork(graph: Graph, thread_key: str, checkpoint_id: str, run_id: str = "") -> None:
    """Make an earlier state of a thread the newest one; nothing of what came after is in it.

    Args:
        graph: any graph over the thread's saver.
        thread_key: internal thread id.
        checkpoint_id: of the earlier state.
        run_id: the run for which it is done; its removal takes the copy along.

    Raises:
        NotFoundError: the thread has no such checkpoint.
    """
    config = address(thread_key, checkpoint_id)
    if (await graph.aget_state(config)).created_at is None:
        raise no_checkpoint(checkpoint_id)
    if run_id:
        config["run_id"] = uuid.UUID(run_id)
    await graph.aupdate_state(config, None, as_node="__copy__")


def no_checkpoint(checkpoint_id: str) -> NotFoundError:
    """The one way to say that a thread has no such checkpoint."""
    return NotFoundError(
        f"This thread has no checkpoint {checkpoint_id[:80]!r}.",
        cure="Its history lists those that it has.",
    )


def _snapshot(found: StateSnapshot, newest: ThreadRow | None) -> Snapshot:
    values = {name: found.values[name] for name in PUBLIC if name in found.values}
    values["messages"] = list(values.get("messages", ()))
    if newest is not None and newest.title:  # a rename is in the row alone
        values["title"] = newest.title
    metadata: dict[str, Any] = dict(cast("Mapping[str, Any]", found.metadata or {}))
    metadata.pop("counters_since_delta_snapshot", None)
    if "run_id" in metadata:
        metadata["run_id"] = str(metadata["run_id"]).replace("-", "")
    parent: Any = (found.parent_config or {}).get("configurable", {})
    return Snapshot(
        checkpoint_id=str(found.config.get("configurable", {}).get("checkpoint_id", "")),
        parent_checkpoint_id=parent.get("checkpoint_id"),
        values=values,
        next=tuple(name for name in found.next if name in NODES or not name.startswith("__")),
        metadata=metadata,
        created_at=found.created_at or "",
        tasks=tuple(_task(task) for task in found.tasks),
        interrupts=tuple({"id": i.id, "value": i.value} for i in found.interrupts),
    )


def _task(task: Any) -> dict[str, Any]:
    return {
        "id": task.id,
        "name": task.name,
        "error": None if task.error is None else "The step failed.",
        "interrupts": [{"id": i.id, "value": i.value} for i in task.interrupts],
        "checkpoint": None,
        "state": None,
        "result": None,
    }
