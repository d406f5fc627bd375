"""Real local sandboxes for tests: a home under a folder of mode 0700, small limits, any level."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from deerflow.config.schema import SandboxConfig
from deerflow.errors import SandboxUnavailableError
from deerflow.sandbox.host import HostProvider
from deerflow.sandbox.launcher import SEED
from deerflow.sandbox.local import LocalProvider, LocalSandbox
from deerflow.sandbox.protocol import Level, ThreadFolders
from deerflow.sandbox.tree import descendants

ISOLATED: tuple[Level, ...] = ("bwrap", "landlock")
EVERY: tuple[Level, ...] = ("bwrap", "landlock", "host")
SMALL = {"memory_mb": 192, "pids": 40, "file_mb": 8, "disk_mb": 48, "seconds": 20}


NOT_OFFERED = (
    "not installed",
    "no Landlock",
    "namespaces are closed",
    "may not map user ids",
    "hides parts of /proc",
    "no system call filter",
)


@dataclass(slots=True)
class Bench:
    """A provider with its home, and one sandbox of it."""

    provider: LocalProvider
    home: Path
    sandbox: LocalSandbox
    folders: ThreadFolders

    async def text(self, command: str) -> str:
        """Output of a command that must succeed."""
        result = await self.sandbox.run(command)
        assert result.exit_code == 0, result
        return result.output


def folders_of(home: Path, key: str = "one") -> ThreadFolders:
    """Folders of a thread, with both kinds of skills."""
    skills = {}
    for kind in ("public", "custom"):
        folder = home / "skills" / kind
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "SKILL.md").write_text(f"a {kind} skill\n", encoding="utf-8")
        skills[f"skills_{kind}"] = folder
    root = home / "users" / "u" / "threads" / key / "user-data"
    return ThreadFolders(root=root, **skills)


def config(**keys: object) -> SandboxConfig:
    """The section with small limits."""
    limits = SMALL | dict(keys.pop("limits", {}))  # type: ignore[call-overload]
    return SandboxConfig.model_validate({"limits": limits} | keys)


def make_provider(level: Level, home: Path, **keys: object) -> LocalProvider:
    """A provider of one level."""
    kind = HostProvider if level == "host" else LocalProvider
    return kind(config(**keys), state=home / "sandbox", level=level)


@asynccontextmanager
async def bench(level: Level, tmp_path: Path, **keys: object) -> AsyncGenerator[Bench, None]:
    """A sandbox of the level under a folder that nobody else may pass.

    Raises:
        SandboxUnavailableError: the machine does not have the level.
    """
    private = tmp_path / "private"
    private.mkdir(mode=0o700, exist_ok=True)
    home = private / "home"
    provider = make_provider(level, home, **keys)
    try:
        folders = folders_of(home)
        yield Bench(provider, home, await provider.acquire("one", folders), folders)
    finally:
        await provider.close()


def skip_where_not_offered(error: SandboxUnavailableError) -> NoReturn:
    """Skip where the machine lacks a level by its nature; anything else is a failure of ours."""
    if any(reason in str(error) for reason in NOT_OFFERED):
        pytest.skip(str(error))
    raise error


@asynccontextmanager
async def bench_or_skip(
    level: Level, tmp_path: Path, **keys: object
) -> AsyncGenerator[Bench, None]:
    """The same; skips where the machine does not offer the level."""
    try:
        async with bench(level, tmp_path, **keys) as place:
            yield place
    except SandboxUnavailableError as error:
        skip_where_not_offered(error)


def processes_of(sandbox: LocalSandbox) -> set[int]:
    """Host pids of everything that runs in the provider's sandboxes."""
    launcher = sandbox.estate.ground.nursery.pid
    every = descendants(launcher) if launcher else []
    return {process.pid for process in every if not _waits(process.pid)}


def _waits(pid: int) -> bool:
    """Whether it is the child that waits for the next sandbox."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="ascii").strip() == SEED
    except OSError:
        return True  # it has just ended


async def until(check: Callable[[], object], *, seconds: float = 20.0) -> bool:
    """Whether a condition (callable) comes true in time."""
    end = asyncio.get_running_loop().time() + seconds
    while not check():
        if asyncio.get_running_loop().time() > end:
            return False
        await asyncio.sleep(0.01)
    return True
