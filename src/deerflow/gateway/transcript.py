"""The log of a thread as pages of messages, and as the events that existing clients know."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from deerflow.events import Event
from deerflow.gateway.frames.custom import Children
from deerflow.gateway.frames.parts import CUT
from deerflow.gateway.wire import iso, message_dict
from deerflow.storage.protocol import Storage, ThreadRow

WINDOW = 500
"""Events that are read at once, backwards."""
BRIEF = 4_000
"""Characters of a child's step that are shown."""
LAST = 2**62
UNFINISHED = ("pending", "running")


@dataclass(slots=True)
class Page:
    """Messages in the order of the log.

    Attributes:
        data: {run_id, seq, content, metadata, created_at}.
        more: whether there are earlier ones.
    """

    data: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    more: bool = False

    def as_dict(self) -> dict[str, Any]:
        """As `messages/page` answers."""
        before = self.data[0]["seq"] if self.data and self.more else None
        return {"data": self.data, "has_more": self.more, "next_before_seq": before}


class Transcript:
    """Messages of a thread, also what was summarised away, and text whose writing was cut off.

    Args:
        storage: the log.
        thread: the thread.
    """

    def __init__(self, storage: Storage, thread: ThreadRow) -> None:
        self._storage = storage
        self._thread = thread
        self._seen: set[str] = set()
        self._answered: set[str] = set()

    async def before(self, seq: int | None, limit: int, *, run_id: str | None = None) -> Page:
        """The newest messages before an event, at most `limit`.

        Args:
            seq: of the event, None for the end.
            limit: how many.
            run_id: only of this run.
        """
        page = Page()
        thread = await self._storage.threads.by_key(self._thread.thread_key) or self._thread
        end = min(seq or LAST, thread.last_seq + 1)
        found: list[dict[str, Any]] = []
        while end > 1 and len(found) <= limit:
            start = max(0, end - 1 - WINDOW)
            events = await self._storage.events.read(
                thread.thread_key, after=start, limit=end - 1 - start
            )
            for event in reversed([event for event in events if event.seq < end]):
                if run_id is None or event.run_id == run_id:
                    entry = await self._entry(event)
                    if entry is not None:
                        found.append(entry)
            end = start + 1
        page.more = len(found) > limit
        page.data = found[:limit][::-1]
        return page

    async def _entry(self, event: Event) -> dict[str, Any] | None:
        kind, payload = event.type, event.payload
        if kind == "message":
            message = message_dict(payload["message"])
            if message["type"] == "ai":
                self._answered.add(event.run_id)
            return self._of(event, message)
        if kind == "model_started":
            return await self._open(event)
        if kind == "model_retry" and payload.get("text") and event.run_id not in self._answered:
            return self._of(event, cut(payload["message_id"], payload["text"]))
        return None

    async def _open(self, event: Event) -> dict[str, Any] | None:
        """A message that was begun, and never finished since its run stopped."""
        ident = str(event.payload["message_id"])
        if ident in self._seen or event.run_id in self._answered:
            return None
        pieces = await self._storage.deltas.read(event.run_id, ident)
        run = await self._storage.threads.run(event.run_id) if pieces else None
        if run is None or run.status in UNFINISHED:
            return None
        return self._of(event, cut(ident, "".join(piece.text for piece in pieces)))

    def _of(self, event: Event, message: dict[str, Any]) -> dict[str, Any] | None:
        ident = str(message["id"])
        if ident in self._seen:  # told twice, by a run that was gone on with
            return None
        self._seen.add(ident)
        return {
            "run_id": event.run_id,
            "seq": event.seq,
            "content": message,
            "metadata": {"caller": "lead_agent"},
            "created_at": iso(event.created_at),
        }


def cut(message_id: Any, text: str) -> dict[str, Any]:
    """A message of which there is no more than this text."""
    return {
        "type": "ai",
        "id": str(message_id),
        "content": text,
        "additional_kwargs": {CUT: True},
        "response_metadata": {"finish_reason": "interrupted"},
        "tool_calls": [],
        "invalid_tool_calls": [],
    }


NAMES = {
    "run_started": ("run.start", "run"),
    "run_queued": ("run.queued", "run"),
    "run_ended": ("run.end", "run"),
    "model_retry": ("llm.error", "llm"),
    "task_started": ("subagent.start", "subagent"),
    "task_running": ("subagent.step", "subagent"),
    "task_completed": ("subagent.end", "subagent"),
    "task_failed": ("subagent.end", "subagent"),
    "task_cancelled": ("subagent.end", "subagent"),
    "task_timed_out": ("subagent.end", "subagent"),
    "workspace_changes": ("workspace_changes", "workspace"),
    "audit": ("middleware:guardrail", "middleware"),
    "skill": ("middleware:skill_activation", "middleware"),
    "artifacts": ("run.delivery", "run"),
}
"""Event of the log → (event_type, category) on the wire; others keep their name: category log."""

_MESSAGES = {"human": "llm.human.input", "ai": "llm.ai.response", "tool": "llm.tool.result"}


@dataclass(frozen=True, slots=True)
class EventQuery:
    """Which events: types on the wire, the child's `task` call, how many, after which seq."""

    types: frozenset[str] = frozenset()
    task_id: str | None = None
    limit: int = 500
    after: int = 0


async def events_of(
    storage: Storage, thread: ThreadRow, run_id: str, first: int, query: EventQuery
) -> list[dict[str, Any]]:
    """Events of a run on the wire, in order.

    Args:
        storage: the log.
        thread: the run's thread.
        run_id: the run.
        first: a seq before the run's first event.
        query: which ones.
    """
    children, found, after = Children(), list[dict[str, Any]](), first
    while len(found) < query.limit:
        events = await storage.events.read(thread.thread_key, after=after, limit=WINDOW)
        if not events:
            break
        for event in _of_run(events, run_id):
            children.note(event)
            entry = wire_event(event, children)
            if event.seq > query.after and _asked(entry, query) and len(found) < query.limit:
                found.append(entry)
        after = events[-1].seq
    return found


def _of_run(events: Sequence[Event], run_id: str) -> Iterable[Event]:
    return (event for event in events if event.run_id == run_id)


def _asked(entry: dict[str, Any], query: EventQuery) -> bool:
    if query.types and entry["event_type"] not in query.types:
        return False
    return query.task_id is None or entry["metadata"].get("task_id") == query.task_id


def wire_event(event: Event, children: Children) -> dict[str, Any]:
    """An event in the envelope that existing clients know. `children` has noted it."""
    name, category = NAMES.get(event.type, (event.type[:32], "log"))
    content: Any = event.payload
    metadata: dict[str, Any] = {}
    if event.type == "message":
        content = message_dict(event.payload["message"])
        name, category = _MESSAGES.get(content["type"], "message"), "llm"
    elif event.type == "run_ended" and event.payload.get("error"):
        name = "run.error"
    elif category == "subagent":
        child = children.of(str(event.payload["task_id"]))
        metadata["task_id"] = child.task_id
        content = {**event.payload, "task_id": child.task_id, "event": event.type}
        if event.type == "task_running":
            content = step(event, child.task_id, child.messages)
    return {
        "thread_id": event.thread_id,
        "run_id": event.run_id,
        "seq": event.seq,
        "event_type": name,
        "category": category,
        "content": content,
        "metadata": metadata,
        "created_at": iso(event.created_at),
    }


def step(event: Event, task_id: str, index: int) -> dict[str, Any]:
    """A child's message, shortened."""
    message = message_dict(event.payload["message"])
    content: Any = message["content"]
    text = (
        content
        if isinstance(content, str)
        else "".join(
            str(part.get("text", "")) if isinstance(part, dict) else str(part)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
            for part in content
        )
    )
    found: dict[str, Any] = {
        "task_id": task_id,
        "message_index": index,
        "kind": "tool" if message["type"] == "tool" else "ai",
        "text": text[:BRIEF],
        "truncated": len(text) > BRIEF,
    }
    if message["type"] == "tool":
        found["tool_name"] = message.get("name")
    elif message.get("tool_calls"):
        found["tool_calls"] = message["tool_calls"]
    return found
