"""A sandbox without processes or files: a dictionary of files and a scripted shell, for tests."""

from __future__ import annotations

import asyncio
import hashlib
import io
import itertools
import posixpath
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from deerflow.errors import ConflictError, PathError, SandboxError
from deerflow.sandbox.paths import Place, VirtualPaths, absolute_path, show_path
from deerflow.sandbox.protocol import (
    SKIP_DIRS,
    WORKSPACE,
    CommandResult,
    FileInfo,
    GrepHit,
    Level,
    ProbeReport,
    ThreadFolders,
)
from deerflow.sandbox.search import Clock, Glob, LineSearch, included, relative, split_glob

Scripted = tuple[int, str]
"""What a scripted command leaves: exit code and output."""
Command = Callable[[str], Scripted]
Script = Mapping[str, Scripted | Command]
"""Command text → what it leaves, or a function of the command text."""


@dataclass(slots=True)
class _File:
    data: bytes
    modified: float


@dataclass(slots=True)
class InMemorySandbox:
    """One thread's files and shells, as a dictionary.

    Attributes:
        paths: the virtual tree.
        files: virtual path → content; written to directly by tests that need a file to be there.
        script: command text → (exit code, output), or a callable that is given the command.
        commands: every command that was run, in order: (agent, command).
        cwds: agent → virtual directory.
    """

    paths: VirtualPaths
    script: Mapping[str, Scripted | Command] = field(
        default_factory=dict[str, "Scripted | Command"]
    )
    commands: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    cwds: dict[str, str] = field(default_factory=dict[str, str])
    released: bool = False
    _files: dict[str, _File] = field(default_factory=dict[str, _File])
    _times: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def level(self) -> Level:
        """Always "memory"."""
        return "memory"

    async def run(
        self,
        command: str,
        *,
        agent: str = "lead",
        alone: bool = True,
        timeout: float | None = None,  # noqa: ASYNC109 - the seam's name
        cwd: str | None = None,
    ) -> CommandResult:
        """Look the command up in the script, or interpret echo, true, false, cat, pwd, cd, exit.

        `;`, `&&` and quotes are not interpreted beyond one simple command.

        Raises:
            SandboxError: released.
        """
        del timeout
        self._alive()
        self.commands.append((agent, command))
        here = self.cwds.get(agent) or cwd or WORKSPACE
        scripted = self.script.get(command)
        if scripted is None:
            code, output, there = self._interpret(command, here)
        else:
            code, output = scripted(command) if callable(scripted) else scripted
            there = here
        if alone:
            self.cwds[agent] = there
        await asyncio.sleep(0)  # as real ones: the caller is suspended
        return CommandResult(
            exit_code=code,
            output=output,
            total_bytes=len(output.encode()),
            spill=None,
            timed_out=False,
            limit=None,
            cwd=there if alone else here,
            seconds=0.0,
        )

    async def dismiss(self, agent: str) -> None:
        """Forget an agent's directory."""
        self.cwds.pop(agent, None)

    async def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Bytes of a file."""
        data = self._file(self._resolve(path)).data[offset:]
        return data if length is None else data[:length]

    async def write(self, path: str, data: bytes, *, expect_sha256: str | None = None) -> FileInfo:
        """Replace a file."""
        place = self._resolve(path)
        if place.mount is None or not place.parts or self._is_dir(place.virtual):
            raise PathError(f"{show_path(place.virtual)} is a directory.", cure="Name a file.")
        if not place.mount.writable:
            raise PathError(
                f"{show_path(place.virtual)} is read-only.", cure="Write below /mnt/user-data."
            )
        for parent in _parents(place.virtual):
            if parent in self._files:
                raise PathError(
                    f"{show_path(place.virtual)} lies below something that is not a directory.",
                    cure="List the directory with `ls`.",
                )
        old = self._files.get(place.virtual)
        if expect_sha256 is not None and (old is None or _sha256(old.data) != expect_sha256):
            raise ConflictError(
                f"{show_path(place.virtual)} has changed since it was read.",
                cure="Read it again, then repeat the change.",
            )
        self.put(place.virtual, data)
        return self._info(place.virtual, digest=True)

    async def stat(self, path: str, *, digest: bool = False) -> FileInfo | None:
        """Facts of one path."""
        place = self._resolve(path)
        if place.virtual in self._files:
            return self._info(place.virtual, digest=digest)
        if self._is_dir(place.virtual):
            return FileInfo(place.virtual, "dir", 0, 0.0)
        return None

    async def listdir(self, path: str, *, depth: int = 1, limit: int = 1000) -> list[FileInfo]:
        """Entries below a directory."""
        place = self._resolve(path)
        if place.virtual in self._files:
            raise PathError(
                f"{show_path(place.virtual)} lies below something that is not a directory.",
                cure="List the directory with `ls`.",
            )
        if not self._is_dir(place.virtual):
            raise _missing(place)
        return self._entries(place, depth)[:limit]

    async def glob(self, pattern: str, *, path: str = "", limit: int = 500) -> list[str]:
        """Files that match a glob, newest first."""
        prefix, rest = split_glob(pattern)
        base = self._resolve(posixpath.join(path, prefix))
        if not self._is_dir(base.virtual):
            if base.virtual in self._files:
                return []
            raise _missing(base)
        glob = Glob(rest)
        found = [
            info
            for info in self._entries(base, None, frozenset(SKIP_DIRS) - glob.names)
            if info.kind == "file" and glob.matches(relative(info.path, base.virtual))
        ]
        found.sort(key=lambda info: (-info.modified, info.path))
        return [info.path for info in found[:limit]]

    async def grep(
        self, pattern: str, *, path: str = "", include: str = "", limit: int = 200
    ) -> list[GrepHit]:
        """Lines that match a regular expression."""
        search = LineSearch(pattern, limit, Clock())
        wanted = included(include)
        base = self._resolve(path)
        if not self._is_dir(base.virtual):
            search.feed(base.virtual, io.BytesIO(self._file(base).data))
            return search.hits
        for info in self._entries(base, None):
            if info.kind != "file" or search.full:
                continue
            if wanted is None or wanted.matches(relative(info.path, base.virtual)):
                search.feed(info.path, io.BytesIO(self._files[info.path].data))
        return search.hits

    def put(self, path: str, data: bytes) -> None:
        """Let a file be there (tests; skills too)."""
        self._files[absolute_path(path)] = _File(data, float(next(self._times)))

    # what the methods above share

    def _alive(self) -> None:
        if self.released:
            raise SandboxError("The sandbox was released.", cure="Acquire it again.")

    def _resolve(self, path: str) -> Place:
        self._alive()
        return self.paths.resolve(path)

    def _file(self, place: Place) -> _File:
        found = self._files.get(place.virtual)
        if found is not None:
            return found
        if self._is_dir(place.virtual):
            raise PathError(
                f"{show_path(place.virtual)} is a directory.",
                cure="List it with `ls`, or name a file in it.",
            )
        raise _missing(place)

    def _is_dir(self, virtual: str) -> bool:
        if virtual in {mount.virtual for mount in self.paths.mounts}:
            return True
        if any(path.startswith(virtual + "/") for path in self._files):
            return True
        return bool(self.paths.below(virtual))

    def _info(self, virtual: str, *, digest: bool = False) -> FileInfo:
        file = self._files[virtual]
        sha256 = _sha256(file.data) if digest else None
        return FileInfo(virtual, "file", len(file.data), file.modified, sha256)

    def _entries(
        self, place: Place, depth: int | None, skip: frozenset[str] = frozenset(SKIP_DIRS)
    ) -> list[FileInfo]:
        found: dict[str, FileInfo] = {}
        mounts = {mount.virtual for mount in self.paths.mounts}
        for path in (*self._files, *mounts):
            if not path.startswith(place.virtual + "/"):
                continue
            names = relative(path, place.virtual).split("/")
            if skip & set(names):
                continue
            for count in range(1, len(names) + 1):
                if depth is not None and count > depth:
                    break
                virtual = posixpath.join(place.virtual, *names[:count])
                is_file = virtual in self._files
                found[virtual] = (
                    self._info(virtual) if is_file else FileInfo(virtual, "dir", 0, 0.0)
                )
        return [found[path] for path in sorted(found, key=lambda path: path.split("/"))]

    def _interpret(self, command: str, cwd: str) -> tuple[int, str, str]:
        try:
            words = shlex.split(command)
        except ValueError as error:
            return 2, f"bash: {error}\n", cwd
        name, args = (words[0], words[1:]) if words else ("true", [])
        match name:
            case "echo":
                return 0, " ".join(args) + "\n", cwd
            case "true" | "false":
                return int(name == "false"), "", cwd
            case "exit":
                return int(args[0]) if args else 0, "", cwd
            case "pwd":
                return 0, f"{cwd}\n", cwd
            case "cd":
                return self._cd(args[0] if args else WORKSPACE, cwd)
            case "cat":
                return self._cat(args, cwd)
            case _:
                return 127, f"bash: {name}: command not found\n", cwd

    def _cd(self, target: str, cwd: str) -> tuple[int, str, str]:
        there = absolute_path(target, cwd)
        if self._is_dir(there):
            return 0, "", there
        return 1, f"bash: cd: {target}: No such file or directory\n", cwd

    def _cat(self, names: list[str], cwd: str) -> tuple[int, str, str]:
        code, output = 0, ""
        for name in names:
            file = self._files.get(absolute_path(name, cwd))
            if file is None:
                code, output = 1, f"{output}cat: {name}: No such file or directory\n"
            else:
                output += file.data.decode("utf-8", "backslashreplace")
        return code, output, cwd


class InMemoryProvider:
    """Provides in-memory sandboxes; a key keeps its files after release, as on a disk.

    Args:
        script: what the shells of all sandboxes know, see `InMemorySandbox.script`.
    """

    def __init__(self, script: Script | None = None) -> None:
        self.script = dict(script or {})
        self.sandboxes: dict[str, InMemorySandbox] = {}
        self.active: set[str] = set()

    async def probe(self) -> ProbeReport:
        """Level "memory"."""
        return ProbeReport("memory")

    async def acquire(self, key: str, folders: ThreadFolders, *, cwd: str = "") -> InMemorySandbox:
        """The sandbox of a key."""
        found = self.sandboxes.get(key)
        if found is None:
            found = InMemorySandbox(VirtualPaths(folders), self.script)
            self.sandboxes[key] = found
        if key not in self.active:
            found.cwds = {"lead": cwd} if cwd else {}
        found.released = False
        self.active.add(key)
        return found

    async def release(self, key: str) -> None:
        """Its shells end; its files stay."""
        self.active.discard(key)
        if key in self.sandboxes:
            self.sandboxes[key].released = True

    async def close(self) -> None:
        """Release all."""
        for key in list(self.active):
            await self.release(key)


def _missing(place: Place) -> PathError:
    return PathError(
        f"{show_path(place.virtual)} does not exist.", cure="List the directory with `ls`."
    )


def _parents(virtual: str) -> list[str]:
    names = virtual.split("/")
    return ["/".join(names[:count]) for count in range(2, len(names))]


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
