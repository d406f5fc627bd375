"""The seam of the sandbox: what tools may ask of one, and what provides it.

All paths are virtual (`/mnt/user-data/...`, `/mnt/skills/...`); no implementation lets a host path
out, neither in results nor in errors. Relative paths resolve against the agent's current directory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

USER_DATA = "/mnt/user-data"
WORKSPACE = f"{USER_DATA}/workspace"
UPLOADS = f"{USER_DATA}/uploads"
OUTPUTS = f"{USER_DATA}/outputs"
SKILLS = "/mnt/skills"

Level = Literal["bwrap", "landlock", "host", "memory", "none"]
"""What isolates: bubblewrap with everything, Landlock + seccomp + rlimits, nothing, no process at
all; "none" where no permitted level works (`acquire` raises then)."""


@dataclass(frozen=True, slots=True)
class ThreadFolders:
    """Host folders of one thread; created lazily by the sandbox or the first upload.

    Attributes:
        root: `users/{uid}/threads/{key}/user-data` under DEER_FLOW_HOME.
        skills_public: host folder shown read-only at /mnt/skills/public, or None.
        skills_custom: host folder shown read-only at /mnt/skills/custom, or None.
    """

    root: Path
    skills_public: Path | None = None
    skills_custom: Path | None = None

    @property
    def workspace(self) -> Path:
        """Host folder behind /mnt/user-data/workspace."""
        return self.root / "workspace"

    @property
    def uploads(self) -> Path:
        """Host folder behind /mnt/user-data/uploads."""
        return self.root / "uploads"

    @property
    def outputs(self) -> Path:
        """Host folder behind /mnt/user-data/outputs."""
        return self.root / "outputs"


@dataclass(frozen=True, slots=True)
class CommandResult:
    r"""What a command left.

    Attributes:
        exit_code: of the command; 124 when it was stopped by the time limit.
        output: stdout and stderr as they came, decoded as UTF-8 with undecodable bytes shown as
            \xNN; head and tail of at most `bash_output_max_chars` characters.
        total_bytes: bytes that the command printed in all.
        spill: virtual path of the whole output when it was cut, else None.
        timed_out: whether the time limit ended it.
        limit: name of the resource limit that stopped it ("memory", "disk", "pids", "time"), or
            None.
        cwd: virtual directory of the shell afterwards.
        seconds: wall time.
    """

    exit_code: int
    output: str
    total_bytes: int
    spill: str | None
    timed_out: bool
    limit: str | None
    cwd: str
    seconds: float


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One entry of the virtual tree.

    Attributes:
        path: virtual and absolute.
        kind: file, dir or link.
        size: bytes.
        modified: seconds since the epoch.
        sha256: hex digest, only where asked for.
    """

    path: str
    kind: Literal["file", "dir", "link"]
    size: int
    modified: float
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class GrepHit:
    """One line that matched: virtual path, line number from 1, the line (cut at 500 characters)."""

    path: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """What isolation this machine gives.

    Attributes:
        level: the level that `acquire` will use.
        reasons: one line for each stronger level that was passed over, with the cause.
        features: e.g. {"userns": True, "cgroup": "v1", "landlock_abi": 7, "seccomp": True}.
        python: version and package names of the sandbox's own Python, or None when not built.
    """

    level: Level
    reasons: tuple[str, ...] = ()
    features: dict[str, object] = field(default_factory=dict[str, object])
    python: str | None = None


@runtime_checkable
class Sandbox(Protocol):
    """An isolated place of one thread: one file tree, one persistent shell per agent."""

    @property
    def level(self) -> Level:
        """The isolation that holds."""
        ...

    async def run(
        self,
        command: str,
        *,
        agent: str = "lead",
        alone: bool = True,
        timeout: float | None = None,  # noqa: ASYNC109  (a limit of the command, not of the wait)
        cwd: str | None = None,
    ) -> CommandResult:
        """Run a bash command in the agent's persistent shell.

        Args:
            command: shell text, may have many lines.
            agent: whose shell; "lead" or a child's namespace.
            alone: True when it is the only shell call of the turn: it may change cwd and
                environment. False runs it in a fork of them that changes neither.
            timeout: seconds, at most the configured limit; None takes the limit.
            cwd: virtual directory to start a fresh shell in (thread state after a resume).

        Raises:
            SandboxError: the sandbox is gone and could not be started again.
        """
        ...

    async def dismiss(self, agent: str) -> None:
        """End an agent's shell with everything that runs in it; its files stay.

        Its next command starts a fresh one. Nothing happens when it has none.
        """
        ...

    async def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Bytes of a file. Raises PathError (outside, link that leaves, missing, directory)."""
        ...

    async def write(self, path: str, data: bytes, *, expect_sha256: str | None = None) -> FileInfo:
        """Replace a file atomically, making its folders; modes of an existing file are kept.

        Raises:
            PathError: outside the writable tree.
            ConflictError: the file is not the `expect_sha256` version.
            SandboxError: disk or file limit.
        """
        ...

    async def stat(self, path: str, *, digest: bool = False) -> FileInfo | None:
        """Facts of one path, None when it does not exist. Raises PathError when outside."""
        ...

    async def listdir(self, path: str, *, depth: int = 1, limit: int = 1000) -> list[FileInfo]:
        """Entries below a directory, sorted by path, hidden spill folder left out."""
        ...

    async def glob(self, pattern: str, *, path: str = "", limit: int = 500) -> list[str]:
        """Virtual paths that match a glob (`**` crosses folders), newest first."""
        ...

    async def grep(
        self, pattern: str, *, path: str = "", include: str = "", limit: int = 200
    ) -> list[GrepHit]:
        """Lines that match a regular expression. Raises ToolError on a bad pattern."""
        ...


@runtime_checkable
class SandboxProvider(Protocol):
    """Makes and ends sandboxes. One per process."""

    async def probe(self) -> ProbeReport:
        """Try the levels once, strongest first; cached afterwards."""
        ...

    async def acquire(self, key: str, folders: ThreadFolders, *, cwd: str = "") -> Sandbox:
        """The sandbox of a thread key, started when needed (same key: same sandbox).

        Raises:
            SandboxUnavailableError: no permitted level can be had.
        """
        ...

    async def release(self, key: str) -> None:
        """End it: afterwards no process of it lives. Never raises for an unknown key."""
        ...

    async def close(self) -> None:
        """Release all."""
        ...


SKIP_DIRS: Sequence[str] = (".tool-results", ".history")
"""Folders that listings, globs and greps leave out unless named."""
