"""Picks up what a dead or stopped run left: what the log has of it, and the turn it left open."""

from __future__ import annotations

import time
import uuid
from dataclasses import replace
from typing import Any, cast

from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.types import StateSnapshot

from deerflow.agent.context import INPUT, RunContext
from deerflow.agent.record import drop_deltas, shown
from deerflow.events import TASK_EVENTS, Event
from deerflow.guardrails.approvals import MOST, supersede
from deerflow.middlewares.guardrail import SupersededCalls

DIED: dict[str, Any] = {
    "code": "process_died",
    "message": "The process that ran this ended before the run did.",
}
"""Error of a run whose process died, as the storage writes it."""


async def note_logged(context: RunContext) -> None:
    """Note what the log has of the run; text of replies that were cut off is void."""
    after, begun = 0, set[str]()
    while events := await context.storage.events.read(context.thread_key, after=after):
        for event in events:
            if event.run_id == context.run_id:
                _note(event, context, begun)
        after = events[-1].seq
    for message_id in begun - context.logged.keys():
        pieces = await context.storage.deltas.read(context.run_id, message_id)
        if pieces:
            void(context, message_id, "".join(piece.text for piece in pieces))


def _note(event: Event, context: RunContext, begun: set[str]) -> None:
    payload = event.payload
    if event.type in ("message", "task_running"):
        context.logged[str(payload["message"].get("id"))] = payload["message"]
    elif event.type == "model_started":
        begun.add(str(payload["message_id"]))
    elif event.type == "model_completed":
        context.completed.add(str(payload["message_id"]))
    elif event.type == "tool_completed":
        context.completed.add(str(payload["tool_call_id"]))
    elif event.type in TASK_EVENTS:
        context.tasks[str(payload["task_id"])] = event.type
    elif event.type == "verification":
        context.completed.add(event.type)
    elif event.type == "memory_queued":
        context.completed.add(str(payload["entry_id"]))
    elif event.type == "approval_requested":
        context.completed.add(str(payload["approval_id"]))
    elif event.type == "approval_decided":
        context.completed.add(f"{payload['approval_id']}.decided")


def void(context: RunContext, message_id: str, text: str = "") -> None:
    """Tell readers that a reply was cut off, and keep what they have seen of it in the log."""
    payload: dict[str, Any] = {
        "model": context.model_name,
        "attempt": 1,
        "code": DIED["code"],
        "message": "The reply was cut off when its run stopped.",
        "wait_seconds": 0.0,
        "next_model": context.model_name,
        "message_id": message_id,
    }
    context.emit("model_retry", {**payload, "text": text} if text else payload)
    drop_deltas(context.storage, context.run_id, message_id)


async def lost_inputs(state: StateSnapshot, context: RunContext) -> list[AnyMessage]:
    """Messages of earlier runs that died before their first checkpoint, oldest first."""
    known = {message.id for message in state.values.get("messages", ())}
    lost: list[AnyMessage] = []
    for row in await context.storage.threads.runs(context.thread_key):
        if row.run_id == context.run_id or row.status == "pending":
            continue
        if (row.error or {}).get("code") != DIED["code"] or INPUT + row.run_id in known:
            break
        earlier = replace(context, run_id=row.run_id, logged={}, completed=set(), tasks={})
        await note_logged(earlier)
        message = HumanMessage(str(row.input.get("task", "")), id=earlier.input_id)
        if message.id not in earlier.logged:
            earlier.emit("message", {"message": shown(message)})
        lost.insert(0, message)
    return lost


async def close_open_turn(
    graph: Any, config: dict[str, Any], state: StateSnapshot, context: RunContext
) -> bool:
    """Answer the calls that an earlier run left open, so that the thread's history is legal.

    A new message would make the graph forget the step that was under way, results included. So that
    step is first brought to its end as the earlier run: recorded results are taken from the
    journal, all other calls get a result that says what is known of them; no tool runs and no model
    is called. Calls that wait for a human are superseded, also those inside children.

    Args:
        graph: the compiled agent.
        config: of the new run.
        state: of the thread, before the new run's input.
        context: of the new run.

    Returns:
        Whether a step was brought to its end, in a new checkpoint.
    """
    messages: list[AnyMessage] = state.values.get("messages", [])
    asked = [m.id for m in messages if (m.id or "").startswith(INPUT)]
    if not state.tasks or not asked:  # `next` leaves out the tasks that have written
        return False
    earlier = replace(
        context,
        run_id=cast("str", asked[-1]).removeprefix(INPUT),
        resumed=True,
        closing=True,
        scratch={},
        bash_calls={},
        logged={},
        completed=set(),
        tasks={},
    )
    await supersede(context.storage, time.time(), context.thread_key)
    await note_logged(earlier)
    earlier.scratch[SupersededCalls] = await _superseded(earlier)
    known = {message.id for message in messages}
    for ident, message in earlier.logged.items():
        if message["type"] == "ai" and ident not in known:
            void(earlier, ident)
    if all(task.name == "model" and not task.result for task in state.tasks):
        return False  # a call of the model was cut off: nothing of it is there
    config = {**config, "run_id": uuid.UUID(earlier.run_id)}
    await graph.ainvoke(None, config, context=earlier, durability="sync")
    return True


def _works_for(event: Event, children: set[str]) -> bool:
    """Whether the event tells which call one of the children, or items of a batch, works for."""
    if event.type == "task_started":
        return event.payload["task_id"] in children
    if event.type == "batch_progress":
        items = f"batch-{event.payload['batch_id'][:12]}."
        return any(child.startswith(items) for child in children)
    return False


async def _superseded(earlier: RunContext) -> SupersededCalls:
    """The lead's calls of a run whose children waited for a human when it was superseded."""
    rows = await earlier.storage.approvals.list(
        earlier.user_id, thread_key=earlier.thread_key, status="superseded", limit=MOST
    )
    children = {r.namespace for r in rows if r.run_id == earlier.run_id and r.namespace}
    found: set[str] = set()
    after = 0
    while children and (
        events := await earlier.storage.events.read(earlier.thread_key, after=after)
    ):
        found.update(
            str(event.payload.get("tool_call_id"))
            for event in events
            if _works_for(event, children)
        )
        after = events[-1].seq
    return SupersededCalls(frozenset(found))
