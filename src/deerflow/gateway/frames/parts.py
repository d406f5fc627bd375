"""What an event of the log, or a piece of a message, means in each stream mode.

Pure: a function of the run's log so far. `frames.follow` reads the log and adds the states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from deerflow.agent.record import THINKING
from deerflow.events import Event
from deerflow.gateway.frames.custom import Children, custom
from deerflow.gateway.frames.encode import body
from deerflow.gateway.frames.modes import Wanted
from deerflow.gateway.frames.native import native
from deerflow.gateway.wire import message_dict

GROWTH = 1.5
"""A frame of the mode `messages` repeats the text so far, so it waits until that has grown by half
(bytes stay linear: at most three times the text)."""

CUT = "deerflow_interrupted"
"""additional_kwargs of a message whose writing was stopped: what is there is all there will be."""


class Rank(IntEnum):
    """Order of the frames of one event; at most one frame each."""

    METADATA = 0
    MESSAGES = 1
    PARTIAL = 2
    CHILD = 3
    UPDATES = 4
    CUSTOM = 5
    TOOLS = 6
    TASKS = 7
    EVENTS = 8
    DEBUG = 9
    VALUES = 10
    CHECKPOINTS = 11
    ERROR = 12
    END = 13


@dataclass(frozen=True, slots=True)
class Part:
    """One frame that is not encoded yet: its place among those of its event, name and payload."""

    rank: Rank
    name: str
    payload: Any


@dataclass(slots=True)
class Writing:
    """The message that the model writes now.

    Attributes:
        message_id: of it.
        began: seq of the event that told of it.
        text, thinking: characters that were sent.
        whole: its text, kept for the mode `messages` alone.
        told: characters of it in that mode's newest frame.
    """

    message_id: str
    began: int = 0
    text: int = 0
    thinking: int = 0
    whole: str = ""
    told: int = 0

    @property
    def shown(self) -> bool:
        """Whether the reader has seen anything of it."""
        return bool(self.text or self.thinking)


class Parts:
    """Reads the log of one run in order for one reader.

    Args:
        wanted: modes of the reader.
        run_id: the run.
        thread_id: the client's id of the thread.
    """

    def __init__(self, wanted: Wanted, run_id: str, thread_id: str) -> None:
        self.wanted = wanted
        self.run_id = run_id
        self.thread_id = thread_id
        self.writing: Writing | None = None
        self.children = Children()
        self.step = 0
        self._noted = 0
        self._done: set[str] = set()

    @property
    def sent(self) -> tuple[str, int, int]:
        """The open message, and how much of it the reader has, for keys of the cache."""
        writing = self.writing
        return (writing.message_id, writing.text, writing.thinking) if writing else ("", 0, 0)

    def note(self, event: Event) -> None:
        """Take in an event, after its parts were made or found in the cache."""
        kind = event.type
        self._tell_children(event)
        if kind == "model_started":
            self._begin(str(event.payload["message_id"]), event.seq)
            self.step += 1
        elif kind == "message":
            self._done.add(str(event.payload["message"].get("id")))
            if self._is_open(event.payload["message"].get("id")):
                self.writing = None
        elif kind in ("run_ended", "run_started") or (
            kind == "model_retry" and self._is_open(event.payload.get("message_id"))
        ):
            self._close()

    def _begin(self, message_id: str, seq: int) -> None:
        if self.writing is not None and self.writing.message_id == message_id:
            self.writing.began = seq  # its first piece came before: pieces travel by themselves
        else:
            self._close()
            self.writing = Writing(message_id, seq)

    def _close(self) -> None:
        if self.writing is not None:
            self._done.add(self.writing.message_id)
            self.writing = None

    def resume(self, message_id: str, text: int, thinking: int) -> None:
        """The reader was in the middle of a message, and has so many characters of it."""
        if self.writing is None and message_id not in self._done:
            self.writing = Writing(message_id)  # the event that begins it comes later
        if self._is_open(message_id) and self.writing is not None:
            self.writing.text, self.writing.thinking = text, thinking

    def take(self, message_id: str, offset: int, text: str) -> tuple[int, str]:
        """Take in a piece of the open message.

        `message_id` may end in THINKING. Of pieces of other messages, and such that begin behind a
        hole, nothing is new; their end is then smaller than the offset of the piece.

        Returns:
            Where the reader is in the message after it, and what of the text is new.
        """
        thinking = message_id.endswith(THINKING)
        name = message_id[: -len(THINKING)] if thinking else message_id
        writing = self.writing
        if writing is None or writing.message_id != name:
            if name in self._done:
                return offset, ""
            if writing is not None:
                return -1, ""
            writing = self.writing = Writing(name)
        known = writing.thinking if thinking else writing.text
        end = offset + len(text)
        if "messages" in self.wanted and not thinking and offset <= len(writing.whole) < end:
            writing.whole = writing.whole[:offset] + text
        if end <= known or offset > known:
            return known, ""
        if thinking:
            writing.thinking = end
        else:
            writing.text = end
        return end, text[known - offset :]

    def piece(self, message_id: str, text: str) -> list[Part]:
        """Parts of what `take` found to be new."""
        thinking = message_id.endswith(THINKING)
        ident = message_id.removesuffix(THINKING)
        found: list[Part] = []
        chunk: dict[str, Any] = {"type": "AIMessageChunk", "id": ident, "content": text}
        if thinking:
            chunk |= {"content": "", "additional_kwargs": {"reasoning_content": text}}
        if "events" in self.wanted:
            payload = {"event": "on_chat_model_stream", "name": "model", "run_id": self.run_id}
            found.append(Part(Rank.EVENTS, "events", {**payload, "data": {"chunk": chunk}}))
        if "messages" in self.wanted and not thinking and self.writing is not None:
            found += self._partial(self.writing)
        if "messages-tuple" in self.wanted:
            found.append(Part(Rank.MESSAGES, "messages", [chunk, {"langgraph_node": "model"}]))
        return found

    def _partial(self, writing: Writing) -> list[Part]:
        whole = len(writing.whole)
        if whole < writing.text or whole < writing.told * GROWTH:
            return []
        writing.told = len(writing.whole)
        whole = {"type": "ai", "id": writing.message_id, "content": writing.whole}
        return [Part(Rank.PARTIAL, "messages/partial", [whole])]

    def parts(self, event: Event) -> list[Part]:
        """Parts of an event in the order of their ranks; values and checkpoints are left out."""
        found: list[Part] = []
        if "messages-tuple" in self.wanted or "messages" in self.wanted:
            found += self._messages(event)
        self._tell_children(event)
        if self.wanted.subgraphs and event.type == "task_running":
            found += self._of_child(event)
        if "updates" in self.wanted:
            update = updates(event)
            if update:
                found.append(Part(Rank.UPDATES, "updates", update))
        if "custom" in self.wanted:
            payload = custom(event, self.children)
            if payload is not None:
                found.append(Part(Rank.CUSTOM, "custom", payload))
        for rank, name, payload in native(event, self.wanted, self.step):
            found.append(Part(Rank[rank], name, payload))
        return found

    def _tell_children(self, event: Event) -> None:
        if event.seq > self._noted:
            self._noted = event.seq
            self.children.note(event)

    def _is_open(self, message_id: Any) -> bool:
        return self.writing is not None and self.writing.message_id == message_id

    def _messages(self, event: Event) -> list[Part]:
        if event.type == "message" and event.payload["message"]["type"] in ("ai", "tool"):
            return self._finished(event)
        same = self._is_open(event.payload.get("message_id"))
        void = event.type in ("run_ended", "run_started") or (
            same if event.type == "model_retry" else event.type == "model_started" and not same
        )
        if not void or self.writing is None or not self.writing.shown:
            return []
        chunk: dict[str, Any] = {
            "type": "AIMessageChunk",
            "id": self.writing.message_id,
            "content": "",
            "additional_kwargs": {CUT: True},
            "response_metadata": {"finish_reason": "interrupted"},
        }
        return self._both(chunk, event, {**chunk, "type": "ai"})

    def _finished(self, event: Event) -> list[Part]:
        message = message_dict(event.payload["message"])
        if message["type"] == "tool":
            return self._both(message, event, message)
        text, thinking = 0, 0
        if self._is_open(message["id"]) and self.writing is not None:
            text, thinking = self.writing.text, self.writing.thinking
        return self._both(rest_of(message, text, thinking), event, message)

    def _both(self, tuple_: dict[str, Any], event: Event, whole: Mapping[str, Any]) -> list[Part]:
        found: list[Part] = []
        if "messages-tuple" in self.wanted:
            about = {
                "langgraph_node": "tools" if whole["type"] == "tool" else "model",
                "langgraph_step": self.step,
                "run_id": event.run_id,
                "thread_id": event.thread_id,
            }
            found.append(Part(Rank.MESSAGES, "messages", [tuple_, about]))
        if "messages" in self.wanted:
            found.append(Part(Rank.PARTIAL, "messages/complete", [whole]))
        return found

    def _of_child(self, event: Event) -> list[Part]:
        message = message_dict(event.payload["message"])
        task_id = self.children.of(str(event.payload["task_id"])).task_id
        node = "tools" if message["type"] == "tool" else "model"
        if "messages-tuple" in self.wanted:
            name, payload = "messages", [message, {"langgraph_node": node}]
        elif "updates" in self.wanted:
            name, payload = "updates", {node: {"messages": [message]}}
        else:
            return []
        return [Part(Rank.CHILD, f"{name}|tools:{task_id}", payload)]


def rest_of(message: Mapping[str, Any], text: int, thinking: int) -> dict[str, Any]:
    """The last chunk of a message of which so many characters were sent already.

    Calls travel as chunks whose arguments are whole: clients join chunks, so nothing is said twice.
    """
    chunk: dict[str, Any] = {
        "type": "AIMessageChunk",
        "id": message["id"],
        "content": _rest(message["content"], text),
        "response_metadata": message["response_metadata"],
        "tool_call_chunks": [
            {
                "name": call["name"],
                "args": body(call["args"]).decode(),
                "id": call["id"],
                "index": index,
                "type": "tool_call_chunk",
            }
            for index, call in enumerate(message["tool_calls"])
        ],
    }
    extra = dict(message["additional_kwargs"])
    reasoning = extra.get("reasoning_content")
    if isinstance(reasoning, str):
        extra["reasoning_content"] = reasoning[thinking:]
        if not extra["reasoning_content"]:
            del extra["reasoning_content"]
    chunk["additional_kwargs"] = extra
    for name in ("usage_metadata", "name"):
        if message.get(name):
            chunk[name] = message[name]
    return chunk


def _rest(content: Any, sent: int) -> Any:
    if isinstance(content, str):
        return content[sent:]
    texts: list[str] = []
    others: list[Any] = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif part.get("type") == "text":
            texts.append(str(part.get("text", "")))
        else:
            others.append(part)
    rest = "".join(texts)[sent:]
    return [*([{"type": "text", "text": rest}] if rest else []), *others] if others else rest


def updates(event: Event) -> dict[str, Any] | None:
    """The payload of an event's `updates` frame: public class or node → what it wrote."""
    kind, payload = event.type, event.payload
    if "task_id" in payload:
        return None
    if kind == "message":
        message = message_dict(payload["message"])
        node = {"ai": "model", "tool": "tools"}.get(message["type"])
        return {node: {"messages": [message]}} if node else None
    if kind == "title":
        return {"TitleMiddleware.after_model": {"title": payload["title"]}}
    if kind in ("todos", "artifacts"):
        return {"tools": {kind: payload[kind]}}
    if kind == "goal":
        return {"model": {"goal": payload}}
    if kind == "compacted":
        return {"SummarizationMiddleware.before_model": {"compaction": payload}}
    return None
