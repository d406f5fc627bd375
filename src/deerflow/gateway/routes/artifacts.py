"""Files of a thread by their virtual paths: shown, downloaded, edited."""

from __future__ import annotations

import asyncio
import os
from typing import Annotated, Any

from fastapi import APIRouter, Header, HTTPException
from fastapi import Path as InPath
from pydantic import BaseModel, Field
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from deerflow.errors import ConflictError, NotFoundError, PathError, UsageError
from deerflow.gateway.deps import Gateway, Open, ThreadRead, ThreadWrite
from deerflow.gateway.media import headers, media_type
from deerflow.gateway.opened import Files, Opened
from deerflow.gateway.ranges import asked_range
from deerflow.gateway.routes.bodies import Body
from deerflow.runtime.history import refuse_busy
from deerflow.sandbox.files import FileTree
from deerflow.sandbox.owner import keeper_of
from deerflow.sandbox.paths import VirtualPaths
from deerflow.sandbox.protocol import ThreadFolders
from deerflow.storage.protocol import ThreadRow

router = APIRouter(tags=["artifacts"])

EDITABLE = 4 * 1024 * 1024
"""Characters of a file that is edited as text."""
Virtual = Annotated[str, InPath(max_length=4096, examples=["mnt/user-data/outputs/report.md"])]
_BYTES: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file.", "content": {"*/*": _BYTES}},
    206: {"description": "A part of the file.", "content": {"*/*": _BYTES}},
    304: {"description": "It is the version of If-None-Match."},
    404: {"description": "No such thread or file."},
    416: {"description": "There are no such bytes; Content-Range tells the size."},
}


class Edit(Body):
    """The new text, and the version that it was made from.

    `expected_sha256` is the ETag of that version, with or without quotes.
    """

    content: str = Field(max_length=EDITABLE)
    expected_sha256: str = Field(pattern=r'^(?:[0-9a-f]{64}|"[0-9a-f]{64}")$')


class Edited(BaseModel):
    """The new version: virtual path, hex digest, bytes."""

    path: str
    sha256: str
    size: int


class _Serving(StreamingResponse):
    """Closes its file in any case."""

    def __init__(self, opened: Opened, part: range, status: int, kind: str) -> None:
        super().__init__(opened.read(part), status, media_type=kind)
        self._opened = opened

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._opened.close()


@router.get(
    "/threads/{thread_id}/artifacts/{path:path}",
    summary="A file of a thread",
    response_class=Response,
    responses=_ANSWERS,
)
async def get(
    thread: ThreadRead,
    path: Virtual,
    gate: Open,
    download: bool = False,
    range_: Annotated[str | None, Header(alias="Range")] = None,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """`path` is virtual, without the first slash; `x.skill/SKILL.md` is a file in an archive.

    The ETag is the SHA-256 of the content. HTML, XML and SVG are always attachments.
    """
    opened = await _files(gate).open(_folders(gate, thread), f"/{path}")
    try:
        return _answer(opened, range_, if_none_match, download=download)
    except HTTPException:
        opened.close()
        raise


@router.put(
    "/threads/{thread_id}/artifacts/{path:path}",
    summary="Edit a text file of a thread",
    responses={
        404: {"description": "No such thread or file."},
        409: {"description": "A run of the thread is active."},
        412: {"description": "The file has changed since."},
    },
)
async def put(
    thread: ThreadWrite, path: Virtual, given: Edit, gate: Open, response: Response
) -> Edited:
    """Only a file that is there, is UTF-8, and has not changed since the caller read it."""
    await refuse_busy(gate.runtime.harness.parts, thread)
    folders, virtual = _folders(gate, thread), f"/{path}"
    try:
        data = given.content.encode()
    except UnicodeEncodeError:
        raise UsageError("The content has characters that are no Unicode text.") from None
    opened = await _files(gate).open(folders, virtual)
    opened.close()
    if opened.data is None and opened.size > 4 * EDITABLE:
        raise UsageError("The file is too large to be edited here.")
    owner = await asyncio.to_thread(_owner, folders, virtual)
    tree = FileTree(folders, owner)
    try:
        if not _is_text(opened.data if opened.data is not None else await tree.read(virtual)):
            raise UsageError("The file is no UTF-8 text.", cure="Upload a new version.")
        made = await tree.write(virtual, data, expect_sha256=given.expected_sha256.strip('"'))
    except ConflictError as error:
        raise HTTPException(412, str(error)) from error
    except PathError as error:
        if "read-only" in error.message:
            raise
        raise NotFoundError(error.message, cure=error.cure) from None
    response.headers["ETag"] = f'"{made.sha256}"'
    return Edited(path=made.path, sha256=made.sha256 or "", size=made.size)


def _answer(opened: Opened, asked: str | None, known: str | None, *, download: bool) -> Response:
    """Raises HTTPException 416."""
    kind = media_type(opened.name, opened.head)
    tag = f'"{opened.sha256}"'
    more = {
        **headers(opened.name, kind, download=download),
        "ETag": tag,
        "Accept-Ranges": "bytes",
    }
    if known is not None and (known.strip() == "*" or tag in known):
        opened.close()
        return Response(status_code=304, headers=more)
    part = asked_range(asked, opened.size)
    status = 200 if part is None else 206
    part = range(opened.size) if part is None else part
    response = _Serving(opened, part, status, kind)
    response.headers.update(more)
    response.headers["Content-Length"] = str(len(part))
    if status == 206:
        response.headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{opened.size}"
    return response


def _files(gate: Gateway) -> Files:
    return gate.extra.setdefault(Files, Files())


def _folders(gate: Gateway, thread: ThreadRow) -> ThreadFolders:
    return gate.runtime.harness.folders(thread.user_id, thread.thread_key)


def _owner(folders: ThreadFolders, path: str) -> tuple[int, int] | None:
    """Whom a new version belongs to: the sandbox, once one has run."""
    mount = VirtualPaths(folders).resolve(path).mount
    if mount is None or not mount.host.is_dir():
        return None
    fd = os.open(mount.host, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return keeper_of(fd)
    finally:
        os.close(fd)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in data
