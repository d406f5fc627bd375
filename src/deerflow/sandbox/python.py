"""The sandbox's own Python: a relocatable environment of the system's interpreter, built once.

Its interpreter lies below /usr, which every sandbox sees; the environment finds itself by the place
of its `bin/python`, so it works under any mount point (`/opt/python`).
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import secrets
import shutil
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import orjson

from deerflow.config.installer import find_uv, trusting
from deerflow.errors import SandboxError

MANIFEST = "deerflow-python.json"
"""File of the environment that says what it was built from and what is in it."""
LAYOUT = 1
"""Number of the way in which environments are built; another number means: build again."""
OLDEST = (3, 9)
"""Oldest interpreter that the usual packages still support."""
BASES = (Path("/usr/bin/python3"), Path("/usr/local/bin/python3"))
"""Interpreters that are looked at, the first good one is taken."""
INSIDE = "/opt/python/bin/python"
"""Where a sandbox sees the interpreter."""
VISIBLE = Path("/usr")
"""Folder of the host that every sandbox sees."""

_FACTS = (
    "import json, sys; print(json.dumps({'version': list(sys.version_info[:3]),"
    " 'prefix': sys.base_prefix}))"
)
_VERSIONS = (
    "import json; from importlib.metadata import distributions as d;"
    "print(json.dumps({i.metadata['Name']: i.version for i in d()}))"
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SHELLS = ("activate", "Activate")

Say = Callable[[str], None]
"""Takes one line of progress."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an environment was built from, and what is in it.

    Attributes:
        layout: LAYOUT of the builder.
        base: real path of the interpreter.
        version: of the interpreter.
        requested: requirements as configured.
        packages: distribution name → version, everything that is installed.
    """

    layout: int
    base: str
    version: str
    requested: tuple[str, ...]
    packages: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Base:
    """An interpreter of the system: real path and version."""

    path: Path
    version: tuple[int, int, int]

    @property
    def text(self) -> str:
        """The version, dotted."""
        return ".".join(map(str, self.version))


def python_folder(home: Path) -> Path:
    """Where the environment lies below DEER_FLOW_HOME."""
    return home / "sandbox" / "python"


def read_manifest(folder: Path | None) -> Manifest | None:
    """The manifest of an environment, None when there is none that can be used."""
    if folder is None or not (folder / "bin" / "python").exists():
        return None
    try:
        raw: Any = orjson.loads((folder / MANIFEST).read_bytes())
        return Manifest(
            layout=int(raw["layout"]),
            base=str(raw["base"]),
            version=str(raw["version"]),
            requested=tuple(map(str, raw["requested"])),
            packages={str(k): str(v) for k, v in raw["packages"].items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def describe(folder: Path | None) -> str | None:
    """One line for prompt and doctor: "Python 3.11 with numpy 2.3.4, pandas 2.3.3".

    Args:
        folder: of the environment, or None.

    Returns:
        The requested packages with their versions; None when nothing was built. The same
        environment gives the same bytes.
    """
    manifest = read_manifest(folder)
    if manifest is None:
        return None
    installed = {_plain(name): version for name, version in manifest.packages.items()}
    names = [_requirement(text) for text in manifest.requested]
    shown = [f"{name} {installed[_plain(name)]}" for name in names if _plain(name) in installed]
    version = ".".join(manifest.version.split(".")[:2])
    return f"Python {version}" + (f" with {', '.join(shown)}" if shown else "")


async def build(
    folder: Path,
    packages: Sequence[str],
    *,
    say: Say,
    bases: Sequence[Path] = BASES,
    again: bool = False,
) -> Manifest:
    """Build the environment unless it is up to date; an old one stays until the new one is whole.

    Args:
        folder: where it is to lie (`DEER_FLOW_HOME/sandbox/python`).
        packages: requirements, wheels only.
        say: takes lines of progress.
        bases: interpreters to choose from.
        again: build even when it is up to date.

    Raises:
        SandboxError: no fit interpreter, another build is under way, a package cannot be had.
    """
    base = await _find_base(bases)
    wanted = tuple(packages)
    kept = None if again else read_manifest(folder)
    if kept is not None and (kept.layout, kept.base, kept.requested) == (
        LAYOUT,
        str(base.path),
        wanted,
    ):
        say(f"The sandbox's Python is up to date: {describe(folder)}.")
        return kept
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.parent / ".python.lock"):
        for stale in folder.parent.glob(".python-*"):
            await asyncio.to_thread(shutil.rmtree, stale, True)
        trial = folder.parent / f".python-{secrets.token_hex(4)}"
        try:
            manifest = await _make(trial, base, wanted, say)
            await asyncio.to_thread(_swap, trial, folder)
        finally:
            await asyncio.to_thread(shutil.rmtree, trial, True)
    say(f"The sandbox's Python is ready: {describe(folder)}.")
    return manifest


async def _make(trial: Path, base: Base, packages: tuple[str, ...], say: Say) -> Manifest:
    uv = await _working_uv()
    say(f"Building the sandbox's Python {base.text} with {len(packages)} packages …")
    python = trial / "bin" / "python"
    if uv is not None:
        venv = [uv, "venv", "--quiet", "--no-project", "--no-python-downloads", "--relocatable"]
        install = [uv, "pip", "install", "--quiet", "--python", str(python)]
        install += ["--link-mode", "copy", "--compile-bytecode"]
        await _run([*venv, "--python", str(base.path), str(trial)], say)
    else:
        install = [str(python), "-m", "pip", "install", "--quiet", "--no-input"]
        install += ["--disable-pip-version-check"]
        await _run(
            [str(base.path), "-m", "venv", str(trial)],
            say,
            cure="Install uv, or the system's package python3-venv.",
        )
    if packages:
        before = () if uv is None else trusting()
        await _run([*install, "--only-binary", ":all:", *packages], say, before=before)
    output = await _run([str(python), "-I", "-c", _VERSIONS], lambda _: None)
    await asyncio.to_thread(_finish, trial)
    manifest = Manifest(LAYOUT, str(base.path), base.text, packages, orjson.loads(output))
    await asyncio.to_thread((trial / MANIFEST).write_bytes, orjson.dumps(asdict(manifest)))
    return manifest


async def _find_base(bases: Sequence[Path]) -> Base:
    seen: list[str] = []
    for candidate in bases:
        if not candidate.exists():
            continue
        path = candidate.resolve()
        try:
            output = await _run([str(path), "-I", "-c", _FACTS], lambda _: None)
            facts: Any = orjson.loads(output)
        except (SandboxError, orjson.JSONDecodeError):
            continue
        version = cast("tuple[int, int, int]", tuple(facts["version"]))
        visible = path.is_relative_to(VISIBLE) and Path(facts["prefix"]).is_relative_to(VISIBLE)
        if version >= OLDEST and visible:
            return Base(path, version)
        seen.append(".".join(map(str, version)))
    found = f" (found: {', '.join(seen)})" if seen else ""
    raise SandboxError(
        f"There is no Python {OLDEST[0]}.{OLDEST[1]} or newer below {VISIBLE}{found}.",
        cure="Install the system's package python3, then run `deerflow sandbox build`.",
    )


async def _working_uv() -> str | None:
    """A uv that runs: a shim of a version manager may point nowhere."""
    uv = find_uv()
    if uv is not None:
        try:
            await _run([uv, "--version"], lambda _: None)
        except SandboxError:
            return None
    return uv


async def _run(
    command: list[str],
    say: Say,
    *,
    cure: str = "Look at its words above, then try again.",
    before: Sequence[str] = (),
) -> bytes:
    """Standard output of a command; its standard error goes to `say` line by line."""
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *before,
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            process_group=0,
        )
    except OSError as error:
        raise SandboxError(f"{Path(command[0]).name} cannot be run: {error.strerror}.") from None
    try:
        output, _ = await asyncio.gather(_collected(process.stdout), _told(process.stderr, say))
        code = await process.wait()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if code != 0:
        what = " ".join([Path(command[0]).name, *command[1:3]])
        raise SandboxError(f"`{what} …` ended with exit code {code}.", cure=cure)
    return output


async def _collected(stream: asyncio.StreamReader | None) -> bytes:
    return b"" if stream is None else await stream.read()


async def _told(stream: asyncio.StreamReader | None, say: Say) -> None:
    while stream is not None and (line := await stream.readline()):
        say(line.decode("utf-8", "replace").rstrip())


@contextlib.contextmanager
def _locked(path: Path) -> Generator[None, None, None]:
    with path.open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SandboxError(
                "Another build of the sandbox's Python is under way.", cure="Wait for its end."
            ) from None
        yield


def _finish(trial: Path) -> None:
    """Scripts find the interpreter where a sandbox sees it; every user may read everything."""
    own = str(trial).encode()
    for script in (trial / "bin").iterdir():
        if script.is_symlink() or script.is_dir() or script.name.startswith(_SHELLS):
            continue
        head, newline, rest = script.read_bytes().partition(b"\n")
        if head.startswith(b"#!") and own in head:
            script.write_bytes(b"#!" + INSIDE.encode() + newline + rest)
    for path in _tree(trial):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | 0o444 | (0o111 if path.is_dir() or mode & 0o100 else 0))


def _tree(folder: Path) -> Iterator[Path]:
    yield folder
    yield from folder.rglob("*")


def _swap(trial: Path, folder: Path) -> None:
    """Put the new environment in the old one's place."""
    aside = folder.parent / f".python-{secrets.token_hex(4)}"
    with contextlib.suppress(FileNotFoundError):
        folder.rename(aside)
    trial.rename(folder)
    shutil.rmtree(aside, ignore_errors=True)


def _requirement(text: str) -> str:
    found = _NAME.match(text.strip())
    return found[0] if found else text


def _plain(name: str) -> str:
    """A distribution's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()
