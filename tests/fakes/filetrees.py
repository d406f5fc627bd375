"""File sides of sandboxes for the conformance suite: each entry makes one below a folder."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from deerflow.sandbox.files import FileTree
from deerflow.sandbox.inmemory import InMemoryProvider
from deerflow.sandbox.protocol import FileInfo, GrepHit, ThreadFolders


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


FILE_TREES: dict[str, Callable[[Path], Awaitable[Files]]] = {
    "disk": on_disk,
    "memory": in_memory,
}
