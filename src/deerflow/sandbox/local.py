"""The local sandbox, isolated without a daemon: bubblewrap, else Landlock, never silently less."""

from __future__ import annotations

import asyncio
from pathlib import Path

from deerflow.config.schema import SandboxConfig
from deerflow.errors import ConfigError, SandboxError, SandboxUnavailableError
from deerflow.sandbox.files import FileTree
from deerflow.sandbox.limits import MIB
from deerflow.sandbox.premises import Estate, Premises
from deerflow.sandbox.probe import Finding, probe
from deerflow.sandbox.protocol import (
    CommandResult,
    FileInfo,
    GrepHit,
    Level,
    ProbeReport,
    ThreadFolders,
)
from deerflow.sandbox.shell import Shell


class LocalSandbox:
    """One thread's place on this machine (see `protocol.Sandbox`).

    Args:
        estate: what was set up for it.
        level: the isolation that holds.
        cwd: virtual directory of its first shell, "" for the workspace.
    """

    def __init__(self, estate: Estate, level: Level, cwd: str = "") -> None:
        ground = estate.ground
        self.estate = estate
        self._level: Level = level
        self._cwd = cwd
        self._limits = ground.site.limits
        self._meter = ground.meter
        self._files = FileTree(
            ground.site.folders, estate.owner, max_bytes=self._limits.file_mb * MIB
        )
        self._shells: dict[str, Shell] = {}
        self._released = False

    @property
    def level(self) -> Level:
        """The isolation that holds."""
        return self._level

    def retire(self) -> list[Shell]:
        """Refuse commands from now on; the shells that are to be closed."""
        self._released = True
        return list(self._shells.values())

    async def run(
        self,
        command: str,
        *,
        agent: str = "lead",
        alone: bool = True,
        timeout: float | None = None,  # noqa: ASYNC109 - the seam's name
        cwd: str | None = None,
    ) -> CommandResult:
        """Run a bash command in the agent's shell; started by the first command.

        Raises:
            SandboxError: the shell cannot be started, or the sandbox was released.
        """
        shell = self._shells.get(agent)
        if shell is None:
            if self._released:
                raise SandboxError("The sandbox was released.", cure="Acquire it again.")
            there = cwd or (self._cwd if agent == "lead" else "")  # a child starts in the workspace
            shell = self._shells[agent] = Shell(self.estate.ground, there)
        most = self._limits.seconds
        return await shell.run(
            command, alone=alone, seconds=most if timeout is None else min(timeout, most)
        )

    async def dismiss(self, agent: str) -> None:
        """End an agent's shell. Cut off, it leaves the shell to `release`."""
        shell = self._shells.get(agent)
        if shell is not None and not self._released:
            await shell.close()
            self._shells.pop(agent, None)

    async def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Bytes of a file."""
        return await self._files.read(path, offset=offset, length=length)

    async def write(self, path: str, data: bytes, *, expect_sha256: str | None = None) -> FileInfo:
        """Replace a file atomically.

        Raises:
            SandboxError: file or disk limit.
        """
        if len(data) > self._meter.room:
            await asyncio.to_thread(self._meter.look)
            if len(data) > self._meter.room:
                raise SandboxError(
                    f"The thread's files have reached {self._limits.disk_mb} MiB.",
                    cure="Delete what is not needed with bash.",
                )
        return await self._files.write(path, data, expect_sha256=expect_sha256)

    async def stat(self, path: str, *, digest: bool = False) -> FileInfo | None:
        """Facts of one path."""
        return await self._files.stat(path, digest=digest)

    async def listdir(self, path: str, *, depth: int = 1, limit: int = 1000) -> list[FileInfo]:
        """Entries below a directory."""
        return await self._files.listdir(path, depth=depth, limit=limit)

    async def glob(self, pattern: str, *, path: str = "", limit: int = 500) -> list[str]:
        """Virtual paths that match a glob."""
        return await self._files.glob(pattern, path=path, limit=limit)

    async def grep(
        self, pattern: str, *, path: str = "", include: str = "", limit: int = 200
    ) -> list[GrepHit]:
        """Lines that match a regular expression."""
        return await self._files.grep(pattern, path=path, include=include, limit=limit)


class LocalProvider:
    """Makes and ends isolated sandboxes. One per process, bound to one event loop.

    Args:
        config: the section `sandbox`.
        state: folder for pipes, copies and locks, usually DEER_FLOW_HOME/sandbox.
        python: host folder of the sandbox's Python, None when it is not built.
        level: try this level alone (tests, operators that want no fallback).

    Raises:
        ConfigError: the configuration asks for something that this provider cannot do.
    """

    levels: tuple[Level, ...] = ("bwrap", "landlock")

    def __init__(
        self,
        config: SandboxConfig,
        *,
        state: Path,
        python: Path | None = None,
        level: Level | None = None,
    ) -> None:
        if config.network not in ("deny", "allow"):
            raise ConfigError(
                ["sandbox.network: a list of domains is not supported yet: use allow or deny"]
            )
        self._premises = Premises(config, state.absolute(), python)
        self._levels = self.levels if level is None else (level,)
        self._finding: Finding | None = None
        self._probing = asyncio.Lock()
        self._sandboxes: dict[str, LocalSandbox] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def probe(self) -> ProbeReport:
        """Try the levels, strongest first, with a real sandbox each; cached afterwards.

        When none works the level is "none", with a reason for each; `acquire` raises then.
        """
        return (await self._find()).report

    async def acquire(self, key: str, folders: ThreadFolders, *, cwd: str = "") -> LocalSandbox:
        """The sandbox of a thread key, set up when needed; its first command starts a process.

        Raises:
            SandboxUnavailableError: no level works, or no uid is free.
            SandboxError: its folders cannot be made.
        """
        async with self._locks.setdefault(key, asyncio.Lock()):
            if key not in self._sandboxes:
                finding = await self._find()
                if not finding.works:
                    reasons = finding.report.reasons
                    raise SandboxUnavailableError(
                        "No isolation works on this machine: " + "; ".join(reasons),
                        cure="Install bubblewrap, or set `sandbox.use: host` to confine nothing.",
                    )
                level = finding.report.level
                estate = await self._premises.settle(key, folders, level, mounts=finding.mounts)
                self._sandboxes[key] = LocalSandbox(estate, level, cwd)
            return self._sandboxes[key]

    async def release(self, key: str) -> None:
        """End it: afterwards no process of it lives. Unknown keys are fine."""
        async with self._locks.setdefault(key, asyncio.Lock()):
            sandbox = self._sandboxes.pop(key, None)
            if sandbox is not None:
                ends = [shell.close for shell in sandbox.retire()]
                await self._premises.leave(sandbox.estate, ends)
        lock = self._locks.get(key)
        if lock is not None and not lock.locked() and key not in self._sandboxes:
            self._locks.pop(key, None)

    async def close(self) -> None:
        """Release all, end the launcher."""
        await asyncio.gather(*(self.release(key) for key in list(self._sandboxes)))
        await self._premises.close()

    async def _find(self) -> Finding:
        async with self._probing:
            if self._finding is None:
                await self._premises.open()
                self._finding = await probe(self._premises, self._levels)
            return self._finding
