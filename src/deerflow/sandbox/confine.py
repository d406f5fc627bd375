"""What a forked child does to itself before it becomes a sandbox: mounts, uid, limits, filters.

Runs in the launcher's children only. The launcher has one thread, so Python code after fork is
safe here.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import os
import resource
import signal
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypedDict

from deerflow.sandbox import landlock

_CLONE_NEWNS: Final = 0x00020000
_MS_NOSUID: Final = 2
_MS_NODEV: Final = 4
_MS_NOEXEC: Final = 8
_MS_BIND: Final = 4096
_MS_REC: Final = 16384
_MS_PRIVATE: Final = 1 << 18
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NAME: Final = 15
_PR_SET_SECCOMP: Final = 22
_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_SET_CHILD_SUBREAPER: Final = 36
_SECCOMP_MODE_FILTER: Final = 2

COMMANDS_FD: Final = 250
"""Descriptor in the sandbox that carries requests to the shell; above what scripts use by habit."""
REPLIES_FD: Final = 251
"""Descriptor in the sandbox that carries the shell's replies."""
KEEPER_FD: Final = 9
"""A copy of REPLIES_FD for the keeper: plain sh names no descriptor above 9."""
INFO_FD: Final = 248
"""Where bubblewrap writes the pid of its init."""
SECCOMP_FD: Final = 249
"""Where bubblewrap reads the filter."""


class Mounts(TypedDict):
    """One step in the private mount namespace, in order.

    Attributes:
        kind: "tmpfs" (size in bytes in `source`), "bind", or "proc" (best effort, others'
            processes hidden).
        source: host folder or file of a bind; opened before the first step, so later steps
            cannot hide it.
        target: where; made when missing.
    """

    kind: Literal["tmpfs", "bind", "proc"]
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Paths:
    """Landlock rules: what may be read (and executed), changed, or only written to; TCP or not."""

    read: list[str]
    write: list[str]
    pipes: list[str]
    network: bool = False


@dataclass(frozen=True, slots=True)
class Confinement:
    """All that a child needs to know, made by the server and sent as JSON.

    Attributes:
        argv: program and arguments (absolute path).
        env: whole environment.
        cwd: host directory to start in.
        owner: (uid, gid) to drop to, None to stay.
        groups: `cgroup.procs` files to join.
        rlimits: (resource number, value) pairs; soft and hard are set alike.
        mounts: steps in an own mount namespace; empty for none.
        paths: Landlock rules, None when the argv confines itself (bubblewrap) or nothing does
            (host).
        seccomp: filter in base64, "" for none.
        bubblewrap: the filter goes to SECCOMP_FD instead of being applied here.
        scoped: keep signals and abstract sockets inside by Landlock alone.
        tree: no pid namespace: a warden process holds and ends the tree.
    """

    argv: list[str]
    env: dict[str, str]
    cwd: str = "/"
    owner: tuple[int, int] | None = None
    groups: list[str] = field(default_factory=list[str])
    rlimits: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    mounts: list[Mounts] = field(default_factory=list[Mounts])
    paths: Paths | None = None
    seccomp: str = ""
    bubblewrap: bool = True
    scoped: bool = False
    tree: bool = False


class _Filter(ctypes.Structure):
    """`struct sock_fprog` of linux/filter.h."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def become_subreaper() -> None:
    """Adopt the orphans of all descendants, so that they can be reaped and ended."""
    libc = _libc()
    _check(libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "subreaper")


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Get a signal when the parent process ends. Lost at a change of uid: set it afterwards."""
    libc = _libc()
    _check(libc.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0), "parent death signal")


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    libc = _libc()
    result = libc.mount(
        source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode()
    )
    _check(result, f"mount on {target}")


def private_mounts(steps: list[Mounts]) -> None:
    """Leave the host's mount namespace and take the steps in an own one.

    The sources of binds are opened as the server's user, which may pass folders that the
    sandbox's user may
    not: nobody has to loosen the mode of a parent folder.

    Raises:
        OSError: no right to (CAP_SYS_ADMIN), or a source is missing.
    """
    libc = _libc()
    _check(libc.unshare(_CLONE_NEWNS), "mount namespace")
    _mount("none", "/", "none", _MS_REC | _MS_PRIVATE)
    opened = [os.open(s["source"], os.O_PATH) if s["kind"] == "bind" else -1 for s in steps]
    for step, fd in zip(steps, opened, strict=True):
        target = step["target"]
        if step["kind"] == "bind" and not os.path.isdir(f"/proc/self/fd/{fd}"):
            with contextlib.suppress(FileExistsError):
                os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        else:
            os.makedirs(target, exist_ok=True)
        if step["kind"] == "tmpfs":
            mode = "1777" if target in ("/tmp", "/dev/shm") else "755"  # noqa: S108
            flags = _MS_NOSUID | _MS_NODEV
            _mount("tmpfs", target, "tmpfs", flags, f"size={step['source']},mode={mode}")
        elif step["kind"] == "bind":
            _mount(f"/proc/self/fd/{fd}", target, "none", _MS_BIND)
        else:
            flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
            with contextlib.suppress(OSError):
                _mount("proc", target, "proc", flags, "hidepid=2")
    for fd in opened:
        if fd >= 0:
            os.close(fd)


def _drop(owner: tuple[int, int]) -> None:
    uid, gid = owner
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def set_limits(pairs: list[tuple[int, int]]) -> None:
    """Set rlimits, soft and hard alike; a lower hard one stays."""
    for number, value in pairs:
        _, hard = resource.getrlimit(number)
        ceiling = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(number, (ceiling, ceiling))


def apply_filter(code: bytes) -> None:
    """Put a seccomp filter on this thread and all that it starts. Raises OSError."""
    libc = _libc()
    buffer = ctypes.create_string_buffer(code, len(code))
    block = _Filter(len(code) // 8, ctypes.cast(buffer, ctypes.c_char_p))
    _check(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
    result = libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(block), 0, 0)
    _check(result, "seccomp")


def _hand_filter(code: bytes) -> None:
    fd = os.memfd_create("filter", 0)
    os.write(fd, code)
    os.lseek(fd, 0, os.SEEK_SET)
    os.dup2(fd, SECCOMP_FD, inheritable=True)
    os.close(fd)


def join(groups: list[str]) -> None:
    """Move this process into control groups.

    Raises:
        OSError: a group is gone or may not be joined.
    """
    for path in groups:
        fd = os.open(path, os.O_WRONLY)
        try:
            os.write(fd, b"0")
        finally:
            os.close(fd)


def name_process(name: str) -> None:
    """Set the name that ps shows (15 characters)."""
    _libc().prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def read_plan(data: dict[str, Any]) -> Confinement:
    """A plan out of its JSON form."""
    rest = dict(data)
    rules = rest.pop("paths")
    return Confinement(paths=Paths(**rules) if rules else None, **rest)


def enter(plan: Confinement) -> None:
    """Confine this process and become the program; returns only by raising.

    Raises:
        OSError: a step failed; the message names the step.
    """
    os.umask(0o022)
    join(plan.groups)
    if plan.mounts:
        private_mounts(plan.mounts)
    set_limits(plan.rlimits)
    if plan.owner is not None:
        _drop(plan.owner)
    die_with_parent()
    os.chdir(plan.cwd)
    code = base64.b64decode(plan.seccomp)
    if plan.bubblewrap and code:
        _hand_filter(code)
    if plan.scoped:
        landlock.scope()
    if plan.paths is not None:
        landlock.restrict(
            plan.paths.read, plan.paths.write, plan.paths.pipes, network=plan.paths.network
        )
    if code and not plan.bubblewrap:
        apply_filter(code)
    os.execve(plan.argv[0], plan.argv, plan.env)  # noqa: S606 - an argument vector, no shell text
