"""Builds one AI message from the payloads of a chat-completions stream (or from a whole answer)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, cast
from uuid import uuid4

import orjson
from langchain_core.messages import AIMessage
from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata
from langchain_core.messages.tool import ToolCallChunk, tool_call_chunk

from deerflow.errors import ModelUnavailableError
from deerflow.models.failures import from_payload
from deerflow.models.private import MESSAGE_FIELDS, REASONING, REASONING_KEY
from deerflow.models.thinktags import Piece, ThinkSplitter, cut_unopened
from deerflow.models.toolcalls import CallAssembler

_MARKS = re.compile(r"[<`\n]")
"""Characters that the tag splitter must see: tags, and code in which they are quoted."""
_DIGITS = 15
_REASONING_NAMES = ("reasoning_content", "reasoning")


class ReplyBuilder:
    """Takes payloads in order; `drain` gives what became visible, `message` the finished message.

    Args:
        model: configured name, for errors.
        split_think: whether tags in the content are taken for thinking.
    """

    def __init__(self, model: str, *, split_think: bool = True) -> None:
        self._model = model
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._key = ""
        self._fresh: list[Piece] = []
        self._splitter = ThinkSplitter() if split_think else None
        self._private: dict[str, Any] = {}
        self._surrogates = False
        self._half = ""
        self.calls = CallAssembler()
        self.fragments: list[ToolCallChunk] = []
        self.usage: UsageMetadata | None = None
        self.finish = ""
        self.served_by = ""
        self.id = uuid4().hex
        self.done = False

    def add(self, payload: bytes) -> None:
        """Take one `data:` payload. Raises the ModelError of an error payload."""
        if payload == b"[DONE]":
            self.done = True
            return
        try:
            data = orjson.loads(payload)
        except orjson.JSONDecodeError:
            data = self._lenient(payload)
        if not isinstance(data, dict):
            raise self._broken()
        try:
            self.add_chunk(cast("dict[str, Any]", data))
        except (AttributeError, IndexError, KeyError, TypeError) as error:  # of another shape
            raise self._broken() from error

    def add_chunk(self, data: dict[str, Any]) -> None:
        """Take one chunk, or a whole answer (`message` in place of `delta`)."""
        choices = data.get("choices")
        if data.get("error") or (choices is None and "message" in data):
            raise from_payload(data, model=self._model)
        if data.get("model"):
            self.served_by = data["model"]
        usage = data.get("usage")
        if usage:
            self.usage = read_usage(usage)
        if not choices:
            return
        choice = choices[0]
        if choice.get("usage") and not usage:
            self.usage = read_usage(choice["usage"])
        delta = choice.get("delta") or choice.get("message")
        if delta:
            self._delta(delta)
        if choice.get("finish_reason"):
            self.finish = choice["finish_reason"]

    def drain(self) -> list[Piece]:
        """(kind, text) since the last call, neighbours of a kind joined."""
        fresh, self._fresh = self._fresh, []
        if len(fresh) < 2:
            return fresh
        joined: list[Piece] = [fresh[0]]
        for kind, text in fresh[1:]:
            if joined[-1][0] == kind:
                joined[-1] = (kind, joined[-1][1] + text)
            else:
                joined.append((kind, text))
        return joined

    def end(self) -> None:
        """Release what the tag splitter held back; call once after the last payload."""
        if self._half:
            self._half = ""
            self._put([("text", "\ufffd")])
        if self._splitter is not None:
            self._put(self._splitter.close(truncated=self.finish == "length"))
            if self._splitter.found:
                self._key = self._key or "tags"
        if not self.finish and not self.done:
            raise ModelUnavailableError(
                f"Model {self._model!r}: the answer broke off before its end.", model=self._model
            )

    def extras(self) -> dict[str, Any]:
        """additional_kwargs beside the thinking: opaque fields, malformed calls, its wire name."""
        extra = self.calls.calls()[1]
        if self._key not in ("", "reasoning_content"):
            extra[REASONING_KEY] = self._key
        return {**self._private, **extra}

    def metadata(self) -> dict[str, Any]:
        """response_metadata: finish_reason and the model name that the endpoint reports."""
        finish = self.finish or ("tool_calls" if self.calls.slots else "stop")
        return {"finish_reason": finish, "model_name": self.served_by}

    def message(self) -> AIMessage:
        """The finished message; call `end` first."""
        text, reasoning = "".join(self._text), "".join(self._reasoning).strip()
        if self._splitter is not None and "</think>" in text:
            text, unopened = cut_unopened(text)
            reasoning = f"{reasoning}\n\n{unopened}".strip() if unopened else reasoning
            self._key = self._key or ("tags" if unopened else "")
        calls, extra = self.calls.calls()
        extra |= self._private
        if reasoning:
            extra[REASONING] = reasoning
            if self._key not in ("", "reasoning_content"):
                extra[REASONING_KEY] = self._key
        return AIMessage(
            content=text,
            additional_kwargs=extra,
            response_metadata=self.metadata(),
            tool_calls=calls,
            usage_metadata=self.usage,
            id=self.id,
        )

    def _delta(self, delta: dict[str, Any]) -> None:
        for name in _REASONING_NAMES:
            thinking = delta.get(name)
            if thinking and isinstance(thinking, str):
                self._key = self._key or name
                thinking = _join_halves(thinking)[0] if self._surrogates else thinking
                self._put([("reasoning", thinking)])
                break
        content = delta.get("content")
        if content:
            self._content(content)
        parts = delta.get("tool_calls")
        if parts:
            self._call_parts(parts)
        if MESSAGE_FIELDS & delta.keys():
            self._opaque(delta)

    def _content(self, content: Any) -> None:
        if not isinstance(content, str):  # Mistral streams a list of parts
            content = "".join(_part_text(part) for part in cast("list[Any]", content))
        if self._surrogates:
            content, self._half = _join_halves(self._half + content)
        splitter = self._splitter
        if splitter is None or (splitter.idle and not _MARKS.search(content)):
            self._text.append(content)
            self._fresh.append(("text", content))
        else:
            self._put(splitter.feed(content))

    def _call_parts(self, parts: Sequence[dict[str, Any]]) -> None:
        for position, slot, text in self.calls.add(parts):
            first = slot.args == [text] or not slot.args
            self._fresh.append(("call", text))
            self.fragments.append(
                tool_call_chunk(
                    name=slot.name if first else None,
                    args=text,
                    id=slot.id if first else None,
                    index=position,
                )
            )

    def _opaque(self, delta: dict[str, Any]) -> None:
        for name in MESSAGE_FIELDS & delta.keys():
            old, new = self._private.get(name), delta[name]
            if isinstance(old, list) and isinstance(new, list):
                new = _merge_details([*cast("list[Any]", old), *cast("list[Any]", new)])
            elif name == "extra_content" and "signature" not in repr(delta[name]):
                continue  # Gemini's mark of a piece of thinking says nothing of the message
            if new is not None:
                self._private[name] = new

    def _put(self, pieces: Sequence[Piece]) -> None:
        for kind, text in pieces:
            (self._text if kind == "text" else self._reasoning).append(text)
        self._fresh += pieces

    def _lenient(self, payload: bytes) -> Any:
        """JSON in which the server split a character: into surrogate escapes, or into bytes."""
        try:
            data = json.loads(payload.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            raise self._broken() from None
        self._surrogates = True
        return data

    def _broken(self) -> ModelUnavailableError:
        return ModelUnavailableError(
            f"Model {self._model!r}: the endpoint sent something that is not a chat completion.",
            model=self._model,
            cure="Check that `base_url` ends where /chat/completions begins.",
        )


def read_usage(usage: dict[str, Any]) -> UsageMetadata:
    """Usage of OpenAI's shape (and DeepSeek's and Moonshot's cache counts) as LangChain's."""
    sent, made = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    found = UsageMetadata(
        input_tokens=sent,
        output_tokens=made,
        total_tokens=_count(usage.get("total_tokens")) or sent + made,
    )
    inner: dict[str, Any] = usage.get("prompt_tokens_details") or {}
    cached = _count(
        inner.get("cached_tokens")
        or usage.get("prompt_cache_hit_tokens")
        or usage.get("cached_tokens")
    )
    if cached:
        found["input_token_details"] = InputTokenDetails(cache_read=cached)
    outer: dict[str, Any] = usage.get("completion_tokens_details") or {}
    thought = _count(outer.get("reasoning_tokens"))
    if thought:
        found["output_token_details"] = OutputTokenDetails(reasoning=thought)
    return found


def _count(value: Any) -> int:
    """A number of tokens; what is none counts as 0, since it must not cost the answer."""
    if isinstance(value, str) and value.isdecimal() and len(value) < _DIGITS:
        return int(value)
    return int(value) if isinstance(value, int | float) and 0 <= value < 10**_DIGITS else 0


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    text = part.get("text") if isinstance(part, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return text if isinstance(text, str) else ""


def _merge_details(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Stream pieces of `reasoning_details`: pieces of one index and type become one entry."""
    merged: list[dict[str, Any]] = []
    for part in parts:
        last = merged[-1] if merged else None
        same = last is not None and all(last.get(k) == part.get(k) for k in ("index", "type"))
        if last is None or not same or part.get("index") is None:
            merged.append(dict(part))
            continue
        for key, value in part.items():
            if key in ("text", "summary", "data") and isinstance(last.get(key), str):
                last[key] += value or ""
            elif value is not None:
                last[key] = value
    return merged


def _join_halves(text: str) -> tuple[str, str]:
    """(valid text, high surrogate that still waits for its other half)."""
    held = text[-1] if text and "\ud800" <= text[-1] <= "\udbff" else ""
    whole = text[: len(text) - len(held)]
    return whole.encode("utf-16", "surrogatepass").decode("utf-16", "replace"), held
