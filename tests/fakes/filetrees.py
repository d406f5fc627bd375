"""Every provider, and every file side of a sandbox, for the conformance suites."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

from deerflow.sandbox.files import FileTree
from deerflow.sandbox.inmemory import InMemoryProvider
from deerflow.sandbox.protocol import FileInfo, GrepHit, Level, SandboxProvider, ThreadFolders
from fakes.sandboxes import make_provider


class Files(Protocol):
    """The file half of `Sandbox`."""

    async def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes: ...
    async def write(
        self, path: str, data: bytes, *, expect_sha256: str | None = None
    ) -> FileInfo: ...
    async def stat(self, path: str, *, digest: bool = False) -> FileInfo | None: ...
    async def listdir(self, path: str, *, depth: int = 1, limit: int = 1000) -> list[FileInfo]: ...
    async def glob(self, pattern: str, *, path: str = "", limit: int = 500) -> list[str]: ...
    async def grep(
        self, pattern: str, *, path: str = "", include: str = "", limit: int = 200
    ) -> list[GrepHit]: ...


SKILL = b"---\nname: pdf\n---\nhow to\n"


def folders_below(base: Path) -> ThreadFolders:
    skills = base / "skills" / "public"
    (skills / "pdf").mkdir(parents=True, exist_ok=True)
    (skills / "pdf" / "SKILL.md").write_bytes(SKILL)
    return ThreadFolders(base / "user-data", skills_public=skills)


async def on_disk(base: Path) -> Files:
    return FileTree(folders_below(base))


async def in_memory(base: Path) -> Files:
    sandbox = await InMemoryProvider().acquire("k", folders_below(base))
    sandbox.put("/mnt/skills/public/pdf/SKILL.md", SKILL)
    return sandbox


FILE_TREES = {"disk": on_disk, "memory": in_memory}
"""Without processes: for tests of tools, which ask for nothing else."""

Opening = Callable[[Path], AbstractAsyncContextManager[SandboxProvider]]


def _local(level: Level) -> Opening:
    @asynccontextmanager
    async def opened(base: Path) -> AsyncGenerator[SandboxProvider]:
        provider = make_provider(level, base)
        try:
            yield provider
        finally:
            await provider.close()

    return opened


@asynccontextmanager
async def _memory(base: Path) -> AsyncGenerator[SandboxProvider]:
    provider = InMemoryProvider()
    try:
        yield provider
    finally:
        await provider.close()


PROVIDERS: dict[str, Opening] = {
    "memory": _memory,
    "bwrap": _local("bwrap"),
    "landlock": _local("landlock"),
    "host": _local("host"),
}
"""Level → a provider of it below a folder."""


async def sandbox_files(provider: SandboxProvider, base: Path) -> Files:
    """The sandbox of thread "k" as a file tree with its skill."""
    sandbox = await provider.acquire("k", folders_below(base))
    if isinstance(provider, InMemoryProvider):
        provider.sandboxes["k"].put("/mnt/skills/public/pdf/SKILL.md", SKILL)
    return sandbox
