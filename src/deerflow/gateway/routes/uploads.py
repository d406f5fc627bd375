"""Files that a user gives to a thread: streamed to the disk, never waiting for a sandbox."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi import Path as InPath
from pydantic import BaseModel
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from deerflow.errors import NotFoundError
from deerflow.gateway.deps import Caller, Gateway, Open, ThreadDelete, ThreadRead, needs
from deerflow.gateway.documents.conversions import Conversion, Conversions, State
from deerflow.gateway.multipart import FIELD, Arrived, received
from deerflow.gateway.routes.bodies import Ident
from deerflow.runtime.incoming import open_folder
from deerflow.runtime.intake import safe_name
from deerflow.runtime.outcome import scan_outputs
from deerflow.sandbox.protocol import UPLOADS
from deerflow.storage.protocol import ThreadRow
from deerflow.wiring.stores import user_folder

router = APIRouter(tags=["uploads"])

Writer = Annotated[Caller, needs("threads:write")]
Reader = Annotated[Caller, needs("threads:read")]
ANY_SIZE = 1 << 50
"""The body's limit as far as the framework knows; `uploads.max_total_size` counts instead."""
_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": [FIELD],
                    "properties": {
                        FIELD: {
                            "type": "array",
                            "minItems": 1,
                            "items": {"type": "string", "format": "binary"},
                        }
                    },
                }
            }
        },
    }
}
_REFUSALS: dict[int | str, dict[str, Any]] = {
    413: {"description": "Too many or too large files; nothing was stored."},
    415: {"description": "Not multipart/form-data."},
    422: {"description": "The body is broken, or there is no file in it."},
}


class Upload(BaseModel):
    """A file of a thread's uploads.

    `path` is virtual, `modified` in UTC seconds. `conversion_state` is left out for files that are
    not converted to Markdown, `markdown_…` unless it is `done`.
    """

    filename: str
    size: int
    path: str
    virtual_path: str
    artifact_url: str
    extension: str
    modified: float
    original_filename: str | None = None
    conversion_state: State | None = None
    conversion_error: str | None = None
    markdown_file: str | None = None
    markdown_path: str | None = None
    markdown_virtual_path: str | None = None
    markdown_artifact_url: str | None = None


class Uploaded(BaseModel):
    """What came of an upload; all files or none are stored, so nothing is ever skipped."""

    success: bool
    files: list[Upload]
    message: str
    skipped_files: list[str]


class Uploads(BaseModel):
    """What is there, by name."""

    files: list[Upload]
    count: int


class UploadLimits(BaseModel):
    """Of one request: number of files, bytes of a file, bytes together."""

    max_files: int
    max_file_size: int
    max_total_size: int


class Removed(BaseModel):
    """A file is gone."""

    success: bool
    message: str


@router.post(
    "/threads/{thread_id}/uploads",
    summary="Upload files",
    response_model=Uploaded,
    response_model_exclude_none=True,
    openapi_extra=_FORM,
    responses=_REFUSALS,
    max_body_size=ANY_SIZE,
)
async def upload(thread_id: Ident, request: Request, gate: Open, who: Writer) -> Any:
    """The thread is made when it is new. A taken name gets a number, unless the bytes are the same.

    Documents are converted to Markdown afterwards, where the configuration says so: `list` tells
    what came of it.
    """
    harness = gate.runtime.harness
    settings = harness.loaded.config.uploads
    folder = user_folder(harness.loaded, who.user_id) / "incoming"
    try:
        async with received(request, settings, folder) as arrived:
            thread = await harness.storage.threads.ensure(who.user_id, thread_id)
            uploads = harness.folders(who.user_id, thread.thread_key).uploads
            names = await asyncio.to_thread(_place, uploads, arrived)
            found = await asyncio.to_thread(_facts, uploads, names)
    except ClientDisconnect:
        return Response(status_code=400)  # nobody reads it
    if settings.auto_convert_documents:
        await _conversions(gate).submit(thread, names, settings.pdf_converter)
    states = await _conversions(gate).of(thread)
    files = [
        _upload(thread, name, found[name], states.get(name), original=each.name)
        for name, each in zip(names, arrived, strict=True)
        if name in found
    ]
    plural = "file" if len(files) == 1 else "files"
    return Uploaded(
        success=True, files=files, message=f"{len(files)} {plural} uploaded.", skipped_files=[]
    )


@router.get("/threads/{thread_id}/uploads/limits", summary="Limits of uploads")
async def limits(thread_id: Ident, gate: Open, who: Reader) -> UploadLimits:
    """The same for every thread, also for one that does not exist yet."""
    settings = gate.runtime.harness.loaded.config.uploads
    return UploadLimits(
        max_files=settings.max_files,
        max_file_size=settings.max_file_size,
        max_total_size=settings.max_total_size,
    )


@router.get(
    "/threads/{thread_id}/uploads/list",
    summary="Uploads of a thread",
    response_model_exclude_none=True,
)
async def listed(thread: ThreadRead, gate: Open) -> Uploads:
    """With the state of their conversion."""
    folder = gate.runtime.harness.folders(thread.user_id, thread.thread_key).uploads
    found = await asyncio.to_thread(_facts, folder)
    states = await _conversions(gate).of(thread)
    files = [_upload(thread, name, found[name], states.get(name)) for name in sorted(found)]
    return Uploads(files=files, count=len(files))


@router.delete("/threads/{thread_id}/uploads/{filename}", summary="Remove an upload")
async def remove(
    thread: ThreadDelete, filename: Annotated[str, InPath(max_length=255)], gate: Open
) -> Removed:
    """With the Markdown that was made of it."""
    folder = gate.runtime.harness.folders(thread.user_id, thread.thread_key).uploads
    conversions = _conversions(gate)
    conversion = (await conversions.of(thread)).get(filename)
    found = await asyncio.to_thread(_facts, folder)
    if filename not in found:
        raise NotFoundError(f"There is no upload {filename[:80]!r}.")
    names = [filename]
    if conversion is not None and conversion.markdown in found:
        names.append(conversion.markdown)
    await asyncio.to_thread(_unlink, folder, names)
    await conversions.forget(thread, filename)
    return Removed(success=True, message=f"{filename} removed.")


def _conversions(gate: Gateway) -> Conversions:
    return gate.extra[Conversions]


def _place(folder: Path, arrived: Sequence[Arrived]) -> list[str]:
    with open_folder(folder) as fd:
        return [each.file.place(fd, safe_name(_last(each.name))) for each in arrived]


def _last(name: str) -> str:
    """The file's own name: clients may send a path."""
    return name.replace("\\", "/").rstrip("/").rpartition("/")[2]


def _facts(folder: Path, names: Sequence[str] | None = None) -> dict[str, tuple[int, float]]:
    """Size and time of change (UTC seconds) of files in the folder, not below it."""
    if not folder.is_dir():
        return {}
    wanted = None if names is None else set(names)
    return {
        name: (size, modified / 1e9)
        for name, (size, modified) in scan_outputs(folder).items()
        if "/" not in name and _is_text(name) and (wanted is None or name in wanted)
    }


def _is_text(name: str) -> bool:
    """Names that are not UTF-8 can be written by sandboxes alone, and not be told as JSON."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def _unlink(folder: Path, names: Sequence[str]) -> None:
    with open_folder(folder) as fd:
        for name in names:
            try:
                os.unlink(name, dir_fd=fd)
            except FileNotFoundError:
                continue


def _upload(
    thread: ThreadRow,
    name: str,
    facts: tuple[int, float],
    conversion: Conversion | None,
    *,
    original: str | None = None,
) -> Upload:
    size, modified = facts
    path = f"{UPLOADS}/{name}"
    made = Upload(
        filename=name,
        size=size,
        path=path,
        virtual_path=path,
        artifact_url=artifact_url(thread, path),
        extension=os.path.splitext(name)[1],
        modified=modified,
        original_filename=None if original is None else original[:255],
    )
    if conversion is not None:
        made.conversion_state = conversion.state
        made.conversion_error = conversion.error or None
        if conversion.markdown:
            markdown = f"{UPLOADS}/{conversion.markdown}"
            made.markdown_file = conversion.markdown
            made.markdown_path = made.markdown_virtual_path = markdown
            made.markdown_artifact_url = artifact_url(thread, markdown)
    return made


def artifact_url(thread: ThreadRow, path: str) -> str:
    """Where a file is served."""
    return f"/api/threads/{quote(thread.thread_id, safe='')}/artifacts{quote(path)}"
