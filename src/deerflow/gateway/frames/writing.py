"""Messages as the agent protocol writes them: begin, blocks with their pieces, finish."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from deerflow.gateway.frames.parts import CUT


@dataclass(slots=True)
class _Open:
    """A message that was begun: its blocks by kind, index and text so far."""

    index: dict[str, int] = field(default_factory=dict[str, int])
    text: dict[str, str] = field(default_factory=dict[str, str])


class Messages:
    """Turns message chunks of a run into protocol events.

    Args:
        run_id: the run.
    """

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self._open: dict[str, _Open] = {}

    def events(self, chunk: dict[str, Any], child: str = "") -> Iterator[dict[str, Any]]:
        """Events of a chunk, or of a whole message; results of tools have none here.

        Args:
            chunk: of the mode messages-tuple.
            child: namespace of a child, whose messages come whole.
        """
        ident = str(chunk["id"])
        if chunk["type"] == "tool":
            return
        opened = self._open.get(ident)
        if opened is None:
            opened = self._open[ident] = _Open()
            about = {"run_id": self.run_id, "langgraph_node": "model"}
            role = "human" if chunk["type"] == "human" else "ai"
            yield {"event": "message-start", "role": role, "id": ident, "metadata": about}
        extra: dict[str, Any] = chunk.get("additional_kwargs") or {}
        for kind, text in (
            ("reasoning", extra.get("reasoning_content")),
            ("text", _text(chunk.get("content"))),
        ):
            if text:
                yield from self._piece(ident, opened, kind, text)
        if child or "response_metadata" in chunk:
            del self._open[ident]
            yield from self._finish(ident, opened, chunk)

    @staticmethod
    def _piece(ident: str, opened: _Open, kind: str, text: str) -> Iterator[dict[str, Any]]:
        if kind not in opened.index:
            opened.index[kind], opened.text[kind] = len(opened.index), ""
            yield {
                "event": "content-block-start",
                "message_id": ident,
                "index": opened.index[kind],
                "content": {"type": kind, kind: ""},
            }
        opened.text[kind] += text
        yield {
            "event": "content-block-delta",
            "message_id": ident,
            "index": opened.index[kind],
            "delta": {"type": f"{kind}-delta", kind: text},
        }

    @staticmethod
    def _finish(ident: str, opened: _Open, chunk: dict[str, Any]) -> Iterator[dict[str, Any]]:
        head = {"event": "content-block-finish", "message_id": ident}
        for kind, index in opened.index.items():
            yield {**head, "index": index, "content": {"type": kind, kind: opened.text[kind]}}
        calls = chunk.get("tool_calls") or [
            {**call, "args": orjson.loads(call["args"])}
            for call in chunk.get("tool_call_chunks") or ()
        ]
        for number, call in enumerate(calls, len(opened.index)):
            block = {"id": call["id"], "name": call["name"]}
            begun = {"type": "tool_call_chunk", **block, "args": ""}
            start = {"event": "content-block-start", "message_id": ident, "index": number}
            yield {**start, "content": begun}
            done = {"type": "tool_call", **block, "args": call["args"]}
            yield {**head, "index": number, "content": done}
        finish: dict[str, Any] = {"event": "message-finish", "message_id": ident}
        if chunk.get("usage_metadata"):
            finish["usage"] = chunk["usage_metadata"]
        extra: dict[str, Any] = chunk.get("additional_kwargs") or {}
        if extra.get(CUT):
            finish["metadata"] = {"finish_reason": "interrupted"}
        yield finish


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or () if isinstance(part, dict))  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportUnknownArgumentType]
