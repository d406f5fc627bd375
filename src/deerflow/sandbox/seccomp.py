"""Seccomp deny lists as BPF programs, packed by hand: no library is needed."""

from __future__ import annotations

import errno
import functools
import platform
import struct
from dataclasses import dataclass
from typing import Final, Literal

Sockets = Literal["inet", "inet_only", "none"]
"""Which families `socket()` may open.

"inet": unix, inet, inet6, netlink (a network namespace confines them); "inet_only": inet, inet6,
netlink (no
namespace, network allowed: pathname sockets of the host stay out of reach); "none": no family at
all.
"""

_FAMILIES: Final[dict[str, tuple[int, ...]]] = {
    "inet": (1, 2, 10, 16),
    "inet_only": (2, 10, 16),
    "none": (),
}

# Name → (x86_64, aarch64), None where it is missing. Source: the kernel's syscall tables.
_DENIED: Final[dict[str, tuple[int | None, int | None]]] = {
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "lookup_dcookie": (212, 18),
    "memfd_secret": (447, 447),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
    "nfsservctl": (180, 42),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "ustat": (136, None),
    "sysfs": (139, None),
    "_sysctl": (156, None),
    "create_module": (174, None),
    "get_kernel_syms": (177, None),
    "query_module": (178, None),
}

_NEW_NAMESPACES: Final = 0x7E020000  # CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET}
_TIOCSTI: Final = 0x5412
_TIOCLINUX: Final = 0x541C
_PERSONALITIES: Final = (0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
_X32_BIT: Final = 0x40000000

_LD_W_ABS: Final = 0x20
_JEQ: Final = 0x15
_JGE: Final = 0x35
_JSET: Final = 0x45
_RET: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_ERRNO: Final = 0x00050000

_NR: Final = 0
_ARCH: Final = 4
_ARG0: Final = 16
_ARG1: Final = 24


@dataclass(frozen=True, slots=True)
class _Machine:
    audit: int
    column: int
    clone: int
    clone3: int
    socket: int
    ioctl: int
    personality: int


_MACHINES: Final[dict[str, _Machine]] = {
    "x86_64": _Machine(0xC000003E, 0, clone=56, clone3=435, socket=41, ioctl=16, personality=135),
    "aarch64": _Machine(0xC00000B7, 1, clone=220, clone3=435, socket=198, ioctl=29, personality=92),
}


def supported(machine: str | None = None) -> bool:
    """Whether a filter can be built for this architecture (`platform.machine()` by default)."""
    return (machine or platform.machine()) in _MACHINES


def _op(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, true, false, value)


def _deny(error: int) -> bytes:
    return _op(_RET, _ERRNO | error)


def _when(nr: int, body: bytes) -> bytes:
    """Run `body` for one syscall; behind it the accumulator holds the number again."""
    block = body + _op(_LD_W_ABS, _NR)
    return _op(_JEQ, nr, 0, len(block) // 8) + block


def _unless_argument_is(offset: int, values: tuple[int, ...], error: int) -> bytes:
    """Deny unless the low word of an argument is one of the values."""
    count = len(values)
    tests = b"".join(_op(_JEQ, value, count - i) for i, value in enumerate(values))
    return _op(_LD_W_ABS, offset) + tests + _deny(error)


@functools.cache
def program(sockets: Sockets = "inet", machine: str | None = None) -> bytes:
    """The filter, ready for `bwrap --seccomp FD` or `prctl(PR_SET_SECCOMP)`.

    Denied calls fail with EPERM, so that programs go on; `clone3` fails with ENOSYS, which makes
    the C library
    fall back to `clone`, whose flags a filter can see. Calls of a foreign architecture fail with
    ENOSYS.

    Args:
        sockets: which address families may be opened.
        machine: architecture name, by default this one's.

    Raises:
        KeyError: the architecture is not supported (see `supported`).
    """
    here = _MACHINES[machine or platform.machine()]
    out = [_op(_LD_W_ABS, _ARCH), _op(_JEQ, here.audit, 1, 0), _deny(errno.ENOSYS)]
    out.append(_op(_LD_W_ABS, _NR))
    if here.column == 0:
        out += [_op(_JGE, _X32_BIT, 0, 1), _deny(errno.ENOSYS)]
    out.append(_when(here.clone3, _deny(errno.ENOSYS)))
    clone = _op(_LD_W_ABS, _ARG0) + _op(_JSET, _NEW_NAMESPACES, 0, 1) + _deny(errno.EPERM)
    out.append(_when(here.clone, clone))
    ioctl = _op(_LD_W_ABS, _ARG1) + _op(_JEQ, _TIOCSTI, 1, 0) + _op(_JEQ, _TIOCLINUX, 0, 1)
    out.append(_when(here.ioctl, ioctl + _deny(errno.EPERM)))
    families = _unless_argument_is(_ARG0, _FAMILIES[sockets], errno.EAFNOSUPPORT)
    out.append(_when(here.socket, families))
    personality = _unless_argument_is(_ARG0, _PERSONALITIES, errno.EPERM)
    out.append(_when(here.personality, personality))
    for numbers in _DENIED.values():
        nr = numbers[here.column]
        if nr is not None:
            out += [_op(_JEQ, nr, 0, 1), _deny(errno.EPERM)]
    out.append(_op(_RET, _ALLOW))
    return b"".join(out)
