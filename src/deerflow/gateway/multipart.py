"""Reads files of a multipart request as they come: onto the disk, never whole into memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import HTTPException
from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.requests import ClientDisconnect, Request

from deerflow.config.schema import UploadsConfig
from deerflow.errors import UsageError
from deerflow.runtime.incoming import Incoming

FIELD = "files"
"""Field of the form that carries files; others are read over."""
_FLUSH = 1 << 20
_OVERHEAD = 1 << 20
"""Bytes of headers and other fields that a request may have beside its files."""
_PATIENCE = 2.0
"""Seconds in which the rest of a refused request is read, so that its sender sees the answer."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A file that is here: the client's name for it, and its bytes."""

    name: str
    file: Incoming


@asynccontextmanager
async def received(
    request: Request, limits: UploadsConfig, folder: Path
) -> AsyncGenerator[list[Arrived]]:
    """The files of a request; those that are not placed are gone afterwards.

    Args:
        request: whose body nobody has read yet.
        limits: enforced while it is read.
        folder: where bytes are kept meanwhile; made when it is missing.

    Raises:
        HTTPException: 413 for too many or too large files, 415 for another kind of body.
        UsageError: the body is broken, or there is no file in it.
        StorageError: the folder cannot be written.
        ClientDisconnect: the client went away.
    """
    boundary = _boundary(request)
    async with AsyncExitStack() as stack:
        reading = _Reading(limits, folder, boundary, stack)
        stream = request.stream()
        try:
            length = request.headers.get("content-length", "")
            if length.isdecimal() and int(length[:20]) > reading.most:
                raise reading.too_large()
            async for chunk in stream:
                await reading.take(chunk)
            reading.check_whole()
        except (HTTPException, UsageError):
            await _read_over(stream)
            raise
        yield reading.files


def _boundary(request: Request) -> bytes:
    kind, options = parse_options_header(request.headers.get("content-type"))
    if kind != b"multipart/form-data":
        raise HTTPException(415, "Files are sent as multipart/form-data.")
    boundary = options.get(b"boundary", b"")
    if not boundary:
        raise UsageError("The multipart body names no boundary.")
    return boundary


async def _read_over(stream: AsyncIterator[bytes]) -> None:
    with contextlib.suppress(TimeoutError, ClientDisconnect):
        async with asyncio.timeout(_PATIENCE):
            async for _ in stream:
                pass


class _Reading:
    """Where a request stands: the parser calls `_on…`, which note what is to be done."""

    def __init__(
        self, limits: UploadsConfig, folder: Path, boundary: bytes, stack: AsyncExitStack
    ) -> None:
        self.files: list[Arrived] = []
        self.most = limits.max_total_size + _OVERHEAD
        self._limits = limits
        self._folder = folder
        self._stack = stack
        self._body = 0
        self._total = 0
        self._whole = False
        self._header = [b"", b""]
        self._disposition = b""
        self._wanted: str | None = None
        self._steps: list[str | bytes | None] = []
        self._buffer = bytearray()
        self._file: Incoming | None = None
        calls: Any = {
            "on_part_begin": self._on_part,
            "on_header_field": self._on_name,
            "on_header_value": self._on_value,
            "on_header_end": self._on_header,
            "on_headers_finished": self._on_headers,
            "on_part_data": self._on_data,
            "on_part_end": self._on_part_end,
            "on_end": self._on_end,
        }
        try:
            self._parser = MultipartParser(boundary, calls)
        except FormParserError as error:
            raise UsageError("The multipart boundary is not usable.") from error

    async def take(self, chunk: bytes) -> None:
        """Read a piece of the body."""
        self._body += len(chunk)
        if self._body > self.most:
            raise self.too_large()
        try:
            self._parser.write(chunk)
        except FormParserError as error:
            raise UsageError("The multipart body is broken.") from error
        steps, self._steps = self._steps, []
        for step in steps:
            if isinstance(step, bytes):
                await self._add(step)
            elif step is None:
                await self._flush()
                self._file = None
            else:
                await self._begin(step)

    def check_whole(self) -> None:
        """Raises UsageError when the body was cut off, or held no file."""
        if not self._whole:
            raise UsageError("The multipart body was cut off.", cure="Send it again.")
        if not self.files:
            raise UsageError(f"There is no file in the field {FIELD!r}.")

    def too_large(self) -> HTTPException:
        """The answer to too many bytes."""
        limit = self._limits.max_total_size
        return _refused(f"The files have more than {limit:,} bytes together", "max_total_size")

    async def _begin(self, name: str) -> None:
        limit = self._limits.max_files
        if len(self.files) >= limit:
            raise _refused(f"More than {limit} files at once", "max_files")
        self._file = await asyncio.to_thread(Incoming, self._folder)
        self._stack.push_async_callback(asyncio.to_thread, self._file.close)
        self.files.append(Arrived(name, self._file))

    async def _add(self, data: bytes) -> None:
        assert self._file is not None  # noqa: S101  (data follows a name)
        self._total += len(data)
        self._buffer += data
        limit = self._limits.max_file_size
        if self._file.size + len(self._buffer) > limit:
            name = self.files[-1].name[:80]
            raise _refused(f"{name!r} has more than {limit:,} bytes", "max_file_size")
        if self._total > self._limits.max_total_size:
            raise self.too_large()
        if len(self._buffer) >= _FLUSH:
            await self._flush()

    async def _flush(self) -> None:
        data, self._buffer = bytes(self._buffer), bytearray()
        if data and self._file is not None:
            await asyncio.to_thread(self._file.write, data)

    def _on_part(self) -> None:
        self._disposition, self._wanted = b"", None

    def _on_name(self, data: bytes, start: int, end: int) -> None:
        self._header[0] += data[start:end]

    def _on_value(self, data: bytes, start: int, end: int) -> None:
        self._header[1] += data[start:end]

    def _on_header(self) -> None:
        name, value = self._header
        self._header = [b"", b""]
        if name.lower() == b"content-disposition":
            self._disposition = value

    def _on_headers(self) -> None:
        _, options = parse_options_header(self._disposition.decode("latin-1"))
        name = options.get(b"filename", b"").decode("utf-8", "replace")
        if options.get(b"name") == FIELD.encode() and name:  # an empty choice has an empty name
            self._wanted = name
            self._steps.append(name)

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        if self._wanted is not None and end > start:
            self._steps.append(data[start:end])

    def _on_part_end(self) -> None:
        if self._wanted is not None:
            self._steps.append(None)

    def _on_end(self) -> None:
        self._whole = True


def _refused(what: str, key: str) -> HTTPException:
    return HTTPException(413, f"{what}: refused (uploads.{key}). Nothing was stored.")
