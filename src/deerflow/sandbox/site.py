"""Where one sandbox stands on the host, and what its inside looks like: the input of every plan."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from deerflow.sandbox.capture import Alias
from deerflow.sandbox.limits import Limits
from deerflow.sandbox.paths import SKILLS_CUSTOM, SKILLS_PUBLIC, USER_DATA, WORKSPACE
from deerflow.sandbox.protocol import ThreadFolders

CONTROL: Final = "/run/deerflow"
"""Folder of the output pipes, as a sandbox with mounts sees it."""
PYTHON: Final = "/opt/python"
SYSTEM: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Folders of the root that are links into /usr on merged systems, and folders on others."""


@dataclass(frozen=True, slots=True)
class Site:
    """One sandbox's place.

    Attributes:
        folders: host folders of the thread.
        control: host folder of the output pipes.
        etc: host folder with the sandbox's own /etc.
        python: host folder of its Python (or of the stand-in that names the cure).
        temp: host folder for temporary files where no private /tmp can be had.
        owner: (uid, gid) to run as, None for the server's own.
        groups: `cgroup.procs` files to join.
        limits: the numbers.
        bounded: a cgroup bounds memory.
        network: the host's network may be used.
        environment: further variables.
        shared: further (host, inside, read-only) folders.
    """

    folders: ThreadFolders
    control: Path
    etc: Path
    python: Path
    temp: Path
    owner: tuple[int, int] | None = None
    groups: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    bounded: bool = False
    network: bool = False
    environment: dict[str, str] = field(default_factory=dict[str, str])
    shared: tuple[tuple[Path, str, bool], ...] = ()

    def folder_pairs(self) -> list[tuple[Path, str, bool]]:
        """(host, inside, read-only) of every folder that the agent sees."""
        pairs = [(self.folders.root, USER_DATA, False)]
        if self.folders.skills_public is not None:
            pairs.append((self.folders.skills_public, SKILLS_PUBLIC, True))
        if self.folders.skills_custom is not None:
            pairs.append((self.folders.skills_custom, SKILLS_CUSTOM, True))
        pairs.append((self.python, PYTHON, True))
        return pairs + list(self.shared)


@dataclass(frozen=True, slots=True)
class View:
    """How a shell sees its site.

    Attributes:
        pipes: folder of the output pipes, inside.
        alias: (virtual, host) texts that commands may name where the inside sees host paths;
            empty with mounts.
        hidden: further (virtual, host) texts that are only taken out of what comes back.
    """

    pipes: str = CONTROL
    alias: tuple[tuple[str, str], ...] = ()
    hidden: tuple[tuple[str, str], ...] = ()

    def inward(self, text: str) -> str:
        """Text of a command with virtual paths turned into what the inside sees."""
        for virtual, host in sorted(self.alias, key=lambda pair: -len(pair[0])):
            text = re.sub(rf"(?<![\w.-]){re.escape(virtual)}(?![\w.-])", lambda _, h=host: h, text)
        return text

    def outward(self, text: str) -> str:
        """Text from inside with virtual paths again."""
        for virtual, host in self._back():
            text = text.replace(host, virtual)
        return text

    def stream(self) -> Alias:
        """The same for a stream of bytes."""
        return Alias(tuple((host.encode(), virtual.encode()) for virtual, host in self._back()))

    def _back(self) -> list[tuple[str, str]]:
        return sorted((*self.alias, *self.hidden), key=lambda pair: -len(pair[1]))


def environment(site: Site, *, temp: str = "/tmp") -> dict[str, str]:  # noqa: S108
    """Variables of the agent's shell: none of the server's."""
    return {
        "PATH": f"{PYTHON}/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
        "HOME": WORKSPACE,
        "USER": "agent",
        "LOGNAME": "agent",
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TERM": "dumb",
        "TMPDIR": temp,
        "XDG_CACHE_HOME": f"{temp}/cache",
        "XDG_CONFIG_HOME": f"{temp}/config",
        "MPLCONFIGDIR": f"{temp}/matplotlib",
        "MPLBACKEND": "Agg",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUTF8": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "PAGER": "cat",
    } | site.environment


@functools.cache
def system_folders() -> tuple[tuple[str, str | None], ...]:
    """(path, link target) of the root's system folders here; None for a real folder."""
    found: list[tuple[str, str | None]] = []
    for name in SYSTEM:
        path = Path("/", name)
        if path.is_symlink():
            found.append((str(path), str(path.readlink())))
        elif path.is_dir():
            found.append((str(path), None))
    return tuple(found)
