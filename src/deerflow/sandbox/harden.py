"""A process of ours that confines itself for good before it reads what a stranger wrote.

Everything that it needs is open or readable beforehand: it gets no network, changes no file, sees
no process outside, and its memory and time are bounded. It has one thread when it does so.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from collections.abc import Sequence
from typing import Final

from deerflow.errors import SandboxError
from deerflow.sandbox import confine, landlock, seccomp, tree

_CLONE_NEWIPC: Final = 0x08000000
_CLONE_NEWUSER: Final = 0x10000000
_CLONE_NEWPID: Final = 0x20000000
_CLONE_NEWNET: Final = 0x40000000
_OPEN_FILES: Final = 256
_THREADS: Final = 64
_SYSTEM: Final = (
    "/usr",
    "/bin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/dev/null",
    "/dev/urandom",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/sys/devices/system/cpu",
)
"""What programs of Python and their libraries read by habit; no secret among it."""


def harden(read: Sequence[str], *, memory: int, seconds: int) -> None:
    """Confine this process and whatever it starts. It may be a child of the caller's afterwards.

    Namespaces, Landlock and a system call filter are used as far as the machine has them.

    Args:
        read: further paths that may be read, with all below them.
        memory: bytes of data that it may have.
        seconds: of CPU time.

    Raises:
        SandboxError: this machine offers nothing that takes the network away.
    """
    confine.die_with_parent()
    apart = _apart()
    others = tree.threads_of(os.getuid())
    confine.set_limits(
        [
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_FSIZE, 0),
            (resource.RLIMIT_NOFILE, _OPEN_FILES),
            (resource.RLIMIT_DATA, memory),
            (resource.RLIMIT_CPU, seconds),
            (resource.RLIMIT_NPROC, others + _THREADS),
        ]
    )
    if landlock.abi():
        landlock.restrict([*_SYSTEM, *read], [], network=False)
    if seccomp.supported():
        confine.apply_filter(seccomp.program("none"))
    elif not apart:
        raise SandboxError("This machine cannot take a process off the network.")


def _apart() -> bool:
    """Go on in a child with namespaces of its own; False where none can be had."""
    libc = ctypes.CDLL(None, use_errno=True)
    spaces = _CLONE_NEWNET | _CLONE_NEWIPC | _CLONE_NEWPID
    for flags in (_CLONE_NEWUSER | spaces, spaces):
        if libc.unshare(ctypes.c_int(flags)) == 0:
            break
    else:
        return False
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code < 0:  # end by the same signal, without a core
            with contextlib.suppress(ValueError, OSError):
                signal.signal(-code, signal.SIG_DFL)
            confine.set_limits([(resource.RLIMIT_CORE, 0)])
            os.kill(os.getpid(), -code)
        sys.stdout.flush()
        os._exit(code & 0xFF)
    confine.die_with_parent()
    return True
