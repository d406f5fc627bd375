"""Downloads a model file from a hub: progress, resume, checksum, never half a file."""

from __future__ import annotations

import asyncio
import hashlib
import re
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO

import aiohttp

from deerflow.errors import (
    ConfigError,
    ModelAuthError,
    ModelError,
    ModelUnavailableError,
    NotFoundError,
)
from deerflow.models.gguf import Note, Progress, disk_errors, models_folder

ENDPOINT = "https://huggingface.co"
"""The public hub; `endpoint:` names another one that speaks the same three URLs."""

_ATTEMPTS = 5
PAUSE = 0.5
_CHUNK = 1 << 20
_STEP = 0.05
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=60)
_NAME = re.compile(r"[\w.-]+(?:/[\w.-]+)*")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class HubFile:
    """One file of one repository.

    Attributes:
        repo: `owner/name`.
        file: path in the repository.
        revision: branch, tag or commit.
        endpoint: base URL of the hub.
        sha256: expected digest; None = what the hub says.
    """

    repo: str
    file: str
    revision: str = "main"
    endpoint: str = ENDPOINT
    sha256: str | None = None

    def __post_init__(self) -> None:
        """Refuse names that could leave the models folder."""
        for key, value in (("repo", self.repo), ("file", self.file), ("revision", self.revision)):
            if not _NAME.fullmatch(value) or ".." in value.split("/"):
                raise ConfigError([f"{key}: {value!r} is not a name on a hub"])

    @property
    def url(self) -> str:
        """Where the bytes are."""
        return f"{self.endpoint.rstrip('/')}/{self.repo}/resolve/{self.revision}/{self.file}"

    def path(self, home: Path) -> Path:
        """Where the file is kept."""
        return models_folder(home) / self.repo.replace("/", "--") / self.file.replace("/", "--")


async def pull(source: HubFile, home: Path, *, progress: Progress, pause: float = PAUSE) -> Path:
    """Make sure that the file is there and whole; goes on where an earlier download stopped.

    A file that is there with a matching note is taken as it is, without asking the hub.

    Args:
        source: what to fetch.
        home: DEER_FLOW_HOME.
        progress: hears one line per twentieth.
        pause: seconds before the second connection, doubled for each further one.

    Raises:
        NotFoundError: the hub has no such file.
        ModelAuthError: the hub wants a key.
        ModelUnavailableError: the hub cannot be reached, or broke off too often.
        ModelError: the bytes have another checksum; they are thrown away.
        StorageError: the folder cannot be written, or the disk is full.
    """
    target = source.path(home)
    note = await asyncio.to_thread(_known, target)
    if note is not None and source.sha256 in (None, note.sha256):
        return target
    with disk_errors("The models folder"):
        await asyncio.to_thread(target.parent.mkdir, parents=True, exist_ok=True)
    async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
        expected = await _expected(session, source)
        download = _Download(session, source, target, expected, progress)
        for attempt in range(_ATTEMPTS):
            if attempt:
                await asyncio.sleep(pause * 2 ** (attempt - 1))
            if await download.go_on():
                return target
    raise ModelUnavailableError(
        f"The download of {source.file} broke off {_ATTEMPTS} times.",
        cure="Start it again: it goes on where it stopped.",
    )


def _known(path: Path) -> Note | None:
    note = Note.beside(path)
    try:
        return note if note is not None and path.stat().st_size == note.size else None
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class _Expected:
    """What the hub says of a file: digest (None = it does not tell) and a mark of the version."""

    sha256: str | None
    version: str


async def _expected(session: aiohttp.ClientSession, source: HubFile) -> _Expected:
    """Ask for the head; the hub's own answer carries the digest, the storage behind it does not."""
    try:
        async with session.head(source.url, allow_redirects=False) as reply:
            _raise_for(reply.status, source)
            etag = reply.headers.get("X-Linked-Etag") or reply.headers.get("ETag") or ""
    except (aiohttp.ClientError, TimeoutError) as error:
        raise _unreachable() from error
    tag = etag.removeprefix("W/").strip('"').lower()
    sha256 = source.sha256 or (tag if _SHA256.fullmatch(tag) else None)
    mark = f"{source.url}\0{tag or sha256}".encode()
    return _Expected(sha256, hashlib.sha256(mark).hexdigest()[:12])


class _Download:
    """One download over any number of connections."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        source: HubFile,
        target: Path,
        expected: _Expected,
        progress: Progress,
    ) -> None:
        self._session = session
        self._source = source
        self._target = target
        self._expected = expected
        self._progress = progress
        # The version stands in the name: bytes of two versions never meet in one file.
        self._part = target.with_name(f".{target.name}.{expected.version}.part")

    async def go_on(self) -> bool:
        """Fetch what is missing; False when the connection broke off.

        Raises:
            As `pull`.
        """
        have = await asyncio.to_thread(_size, self._part)
        headers = {"Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        try:
            async with self._session.get(self._source.url, headers=headers) as reply:
                if reply.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                    return await self._finish(have)
                _raise_for(reply.status, self._source)
                if reply.status != HTTPStatus.PARTIAL_CONTENT:
                    have = 0
                total = have + (reply.content_length or 0)
                await self._save(reply, have, total)
        except aiohttp.ClientConnectorError as error:
            raise _unreachable() from error
        except (aiohttp.ClientError, TimeoutError):
            return False
        return await self._finish(total)

    async def _save(self, reply: aiohttp.ClientResponse, have: int, total: int) -> None:
        told = 0.0
        with disk_errors("The models folder"):
            file = await asyncio.to_thread(self._part.open, "r+b" if have else "wb")
            try:
                await asyncio.to_thread(file.seek, have)
                async for chunk in reply.content.iter_chunked(_CHUNK):
                    await asyncio.to_thread(file.write, chunk)
                    have += len(chunk)
                    if total and (have == total or have / total >= told + _STEP):
                        told = have / total
                        self._progress(
                            f"{self._source.file}: {told:.0%} of {total // 1_000_000} MB"
                        )
            except OSError as error:
                if not isinstance(error, aiohttp.ClientError):  # a full disk: give the room back
                    await asyncio.to_thread(self._part.unlink, missing_ok=True)
                raise
            finally:
                await asyncio.to_thread(_close, file)

    async def _finish(self, total: int) -> bool:
        size = await asyncio.to_thread(_size, self._part)
        if total and size < total:
            return False
        with disk_errors("The models folder"):
            await asyncio.to_thread(self._check_and_place, size)
        return True

    def _check_and_place(self, size: int) -> None:
        with self._part.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if self._expected.sha256 not in (None, found):
            self._part.unlink()
            raise ModelError(
                f"{self._source.file} arrived with another checksum than expected.",
                cure="Try again; if it stays so, check `sha256`, `revision` and `endpoint`.",
            )
        Note(found, size).write(self._target)
        self._part.replace(self._target)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _close(file: BinaryIO) -> None:
    file.close()


def _raise_for(status: int, source: HubFile) -> None:
    if status < HTTPStatus.BAD_REQUEST:
        return
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        raise ModelAuthError(f"The hub does not give {source.repo} without a key.")
    if status == HTTPStatus.NOT_FOUND:
        raise NotFoundError(
            f"The hub has no {source.file} in {source.repo} at {source.revision}.",
            cure="Check `repo`, `file` and `revision`.",
        )
    raise ModelUnavailableError(f"The hub answers {status}.", cure="Try again later.")


def _unreachable() -> ModelUnavailableError:
    return ModelUnavailableError(
        "The hub cannot be reached.", cure="Check the network, and `endpoint` if it is set."
    )
