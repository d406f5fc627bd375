"""Row 10: images that the model looked at, as parts of the request while they matter."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage

from deerflow.agent.context import RunContext
from deerflow.agent.deliverables import REMINDER
from deerflow.agent.hooks import Middleware, ModelCall, ModelNext, ModelReply
from deerflow.agent.state import ViewedImage
from deerflow.errors import ModelRequestError
from deerflow.middlewares.delimiters import one_line
from deerflow.middlewares.requests import last_request

TOOL = "view_image"

SENT = 10
"""Images in one request, the newest ones (an image costs about 1,500 tokens)."""


REFUSED = "the model's provider refuses this image; it may be broken or too large."


class ViewImageMiddleware(Middleware):
    """Puts viewed images after the results that announced them, until the request is answered.

    They are stored once, as blobs; the transcript holds their paths alone. When a request is
    refused that first shows some, it is sent once more without these, and they stay out.

    Args:
        vision: whether a model takes images.
    """

    def __init__(self, *, vision: Callable[[BaseChatModel], bool]) -> None:
        self._vision = vision

    async def model(self, call: ModelCall, next_: ModelNext) -> ModelReply:
        """Insert the images of this run."""
        viewed: dict[str, ViewedImage] = call.state.get("viewed_images") or {}
        if not viewed or not self._vision(call.model):
            return await next_(call)
        places = _places(call.messages, viewed)
        if not places:
            return await next_(call)
        book: _Book = call.run.scratch.setdefault(ViewImageMiddleware, _Book())
        sent = {viewed[path]["sha256"] for paths in places.values() for path in paths}
        sent -= book.refused
        try:
            reply = await next_(call.with_(messages=await _with(places, viewed, call)))
        except ModelRequestError:
            unproved = sent - book.accepted
            if not unproved:
                raise
            book.refused |= unproved  # a broken image must not end the run: go on without it
            return await next_(call.with_(messages=await _with(places, viewed, call)))
        book.accepted |= sent
        return reply


@dataclass(slots=True)
class _Book:
    """Of one run: images as parts, and which a model took or refused (by sha256)."""

    parts: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    accepted: set[str] = field(default_factory=set[str])
    refused: set[str] = field(default_factory=set[str])


async def _with(
    places: dict[int, list[str]], viewed: dict[str, ViewedImage], call: ModelCall
) -> list[AnyMessage]:
    messages: list[AnyMessage] = []
    for index, message in enumerate(call.messages):
        messages.append(message)
        if index in places:
            messages.append(await _shown(places[index], viewed, call.run))
    return messages


def _places(messages: Sequence[AnyMessage], viewed: dict[str, ViewedImage]) -> dict[int, list[str]]:
    """Index of a turn's last result → paths that the turn viewed (of this run, at most SENT)."""
    places: dict[int, list[str]] = {}
    left, end = SENT, -1
    seen: set[str] = set()
    for index in range(len(messages) - 1, last_request(messages), -1):
        message = messages[index]
        if not isinstance(message, ToolMessage):
            end = -1
            continue
        end = index if end < 0 else end
        path = _path(message, viewed)
        if path is not None and path not in seen and left > 0:
            places.setdefault(end, []).insert(0, path)
            seen.add(path)
            left -= 1
    return places


def _path(message: ToolMessage, viewed: dict[str, ViewedImage]) -> str | None:
    """The image that a result announces: the tool leaves its virtual path in `artifact`."""
    if message.name != TOOL or message.status == "error":
        return None
    artifact: Any = message.artifact
    path = cast("dict[str, Any]", artifact).get("path") if isinstance(artifact, dict) else artifact
    return path if isinstance(path, str) and path in viewed else None


async def _shown(paths: list[str], viewed: dict[str, ViewedImage], run: RunContext) -> HumanMessage:
    parts: list[str | dict[str, Any]] = []
    for path in paths:
        book: _Book = run.scratch[ViewImageMiddleware]
        name = one_line(path, 300)
        if viewed[path]["sha256"] in book.refused:
            parts.append({"type": "text", "text": f"{name}: {REFUSED}"})
            continue
        part = await _part(viewed[path], run)
        if part is None:
            parts.append({"type": "text", "text": f"{name}: the image is no longer stored."})
        else:
            parts += [{"type": "text", "text": f"{name}:"}, part]
    return HumanMessage(content=parts, additional_kwargs={REMINDER: True})


async def _part(image: ViewedImage, run: RunContext) -> dict[str, Any] | None:
    """The image as a standard content block, encoded once a run."""
    book: _Book = run.scratch[ViewImageMiddleware]
    part = book.parts.get(image["sha256"])
    if part is None:
        blob = await run.storage.blobs.get(run.user_id, image["sha256"])
        if blob is None:
            return None
        data = await asyncio.to_thread(base64.b64encode, blob[0])
        part = {"type": "image", "base64": data.decode("ascii"), "mime_type": image["media_type"]}
        book.parts[image["sha256"]] = part
    return part
