"""Row 2: tells the model about files that the user uploaded since the last request."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from langchain_core.messages import AnyMessage

from deerflow.agent.context import RunContext
from deerflow.agent.hooks import Middleware, ModelCall, ModelNext, ModelReply
from deerflow.agent.state import UploadedFile
from deerflow.middlewares.delimiters import UPLOADS_TAG, before, block, one_line
from deerflow.middlewares.requests import is_request, last_request
from deerflow.sandbox.protocol import UPLOADS

LISTED = 10
"""Files that a request names; the rest are counted."""

TRACKED = 500
"""Files of the folder that the state remembers: an unpacked archive must not fill it."""

MARK = "uploads"
"""additional_kwargs of a request: the first LISTED new files, each {name, path, size, outline}."""

TOTAL = "uploads_total"
"""additional_kwargs of a request: number of new files."""

_HEAD = 65_536
_CHUNK = 1 << 20
_HEADINGS = 8
_HEADING = re.compile(r"^#{1,3}[ \t]+(\S.*?)[ \t#]*$", re.MULTILINE)
_OUTLINED = (".md", ".markdown", ".txt", ".rst")


class UploadsMiddleware(Middleware):
    """Marks the request with its new uploads; the mark reads the same on every turn."""

    async def start(self, state: dict[str, Any], run: RunContext) -> dict[str, Any] | None:
        """Look into the uploads folder; mark the request with what is new or changed."""
        messages: list[AnyMessage] = state["messages"]
        index = last_request(messages)
        if index < 0 or not messages[index].id:
            return None
        request = messages[index]
        known: list[UploadedFile] = state.get("uploaded_files") or []
        found: list[UploadedFile] = []
        fresh: list[dict[str, Any]] = []
        if run.folders.uploads.exists():  # most threads have none, and then no thread is asked
            found, fresh = await asyncio.to_thread(_look, run.folders.uploads, known)
        extra = {k: v for k, v in request.additional_kwargs.items() if k not in (MARK, TOTAL)}
        if fresh:
            extra[MARK] = fresh[:LISTED]
            extra[TOTAL] = len(fresh)
        update: dict[str, Any] = {}
        if extra != request.additional_kwargs:  # a mark that the client sent is not ours
            update["messages"] = [request.model_copy(update={"additional_kwargs": extra})]
        if found != known:
            update["uploaded_files"] = found
        return update or None

    async def model(self, call: ModelCall, next_: ModelNext) -> ModelReply:
        """Render the marks."""
        messages: list[AnyMessage] | None = None
        for index, message in enumerate(call.messages):
            if MARK in message.additional_kwargs and is_request(message):
                messages = messages or list(call.messages)
                messages[index] = before(message, rendered(message.additional_kwargs))
        return await next_(call if messages is None else call.with_(messages=messages))


def rendered(mark: dict[str, Any]) -> str:
    """The block that names new uploads.

    Args:
        mark: additional_kwargs of the request, with MARK and TOTAL.
    """
    files = cast("list[dict[str, Any]]", mark[MARK])
    lines = ["The user uploaded:"]
    for file in files:
        lines.append(f"- {one_line(str(file['path']), 300)} ({_size(int(file['size']))})")
        lines.extend(f"  - {one_line(str(heading), 80)}" for heading in file.get("outline") or ())
    more = int(mark.get(TOTAL, 0)) - len(files)
    if more > 0:
        lines.append(f"and {more} more in {UPLOADS}")
    return block(UPLOADS_TAG, "\n".join(lines))


def _size(count: int) -> str:
    if count < 1024:
        return f"{count} B"
    return f"{count / 1024:.1f} kB" if count < 1024 * 1024 else f"{count / 1024 / 1024:.1f} MB"


def _look(
    folder: Path, known: Sequence[UploadedFile]
) -> tuple[list[UploadedFile], list[dict[str, Any]]]:
    """All files of the folder, and the new or changed ones with outlines. No link is followed."""
    try:
        root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return [], []
    before_ = {file["path"]: file for file in known}
    found: list[UploadedFile] = []
    fresh: list[dict[str, Any]] = []
    try:
        names = sorted(entry.name for entry in os.scandir(root) if not entry.name.startswith("."))
        for name in names[:TRACKED]:
            path = f"{UPLOADS}/{_storable(name)}"
            file, outline = _facts(root, name, before_.get(path))
            if file is None:
                continue
            found.append(file)
            old = before_.get(path)
            if old is None or old["sha256"] != file["sha256"]:
                fresh.append(
                    {"name": file["name"], "path": path, "size": file["size"], "outline": outline}
                )
    finally:
        os.close(root)
    return found, fresh


def _storable(name: str) -> str:
    """A file name as text; bytes that are not UTF-8 become escapes that JSON can hold."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _facts(root: int, name: str, old: UploadedFile | None) -> tuple[UploadedFile | None, list[str]]:
    """The state entry and outline of one file; (None, []) for anything but a regular file."""
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=root)
    except OSError:
        return None, []
    try:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode):
            return None, []
        if old is not None and _unchanged(old, facts):
            return old, []
        head = os.read(handle, _HEAD)
        digest = hashlib.sha256(head)
        while chunk := os.read(handle, _CHUNK):
            digest.update(chunk)
    except OSError:
        return None, []
    finally:
        os.close(handle)
    path = f"{UPLOADS}/{_storable(name)}"
    file = UploadedFile(
        name=_storable(name),
        path=path,
        size=facts.st_size,
        sha256=digest.hexdigest(),
        modified=facts.st_mtime_ns,
    )
    return file, _outline(name, head)


def _unchanged(old: UploadedFile, facts: os.stat_result) -> bool:
    return (old["size"], old.get("modified")) == (facts.st_size, facts.st_mtime_ns)


def _outline(name: str, head: bytes) -> list[str]:
    if not name.lower().endswith(_OUTLINED):
        return []
    text = head.decode("utf-8", "replace")
    return [one_line(match[1], 80) for match in _HEADING.finditer(text)][:_HEADINGS]
