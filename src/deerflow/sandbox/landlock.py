"""Landlock by ctypes: which paths a process may touch, and nothing outside its domain to signal."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable, Sequence
from typing import Final

# The same numbers on every architecture that has them.
_CREATE: Final = 444
_ADD: Final = 445
_RESTRICT: Final = 446
_VERSION_FLAG: Final = 1
_PATH_BENEATH: Final = 1

_EXECUTE: Final = 1 << 0
_WRITE_FILE: Final = 1 << 1
_READ_FILE: Final = 1 << 2
_READ_DIR: Final = 1 << 3
_MAKE_CHAR: Final = 1 << 6
_MAKE_BLOCK: Final = 1 << 11
_TRUNCATE: Final = 1 << 14
_IOCTL_DEV: Final = 1 << 15
_READ: Final = _EXECUTE | _READ_FILE | _READ_DIR
_FILE_ONLY: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV

# First ABI with: 13 basic rights, REFER, TRUNCATE, IOCTL_DEV (userspace-api/landlock.rst).
_RIGHTS_BY_ABI: Final = ((1, (1 << 13) - 1), (2, 1 << 13), (3, 1 << 14), (5, 1 << 15))
_NET_ABI: Final = 4
_SCOPE_ABI: Final = 6
_TCP: Final = 0b11
_SCOPES: Final = 0b11  # abstract unix sockets, signals

_O_PATH: Final = os.O_PATH | os.O_CLOEXEC


def _call(number: int, *args: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    result = int(libc.syscall(ctypes.c_long(number), *args))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def abi() -> int:
    """Landlock ABI of the running kernel, 0 when it is missing or switched off."""
    try:
        return _call(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG))
    except OSError:
        return 0


def scopes_signals(version: int) -> bool:
    """Whether this ABI can keep signals and abstract sockets inside."""
    return version >= _SCOPE_ABI


def _rights(version: int) -> int:
    return sum(bits for since, bits in _RIGHTS_BY_ABI if version >= since)


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        fd = os.open(path, _O_PATH)
    except (FileNotFoundError, PermissionError, NotADirectoryError):
        return  # a path that is not there needs no rule
    try:
        mode = os.fstat(fd).st_mode
        if mode & 0o170000 != 0o040000:
            access &= _FILE_ONLY
        attr = struct.pack("=Qi", access, fd)
        _call(
            _ADD,
            ctypes.c_int(ruleset),
            ctypes.c_int(_PATH_BENEATH),
            ctypes.c_char_p(attr),
            ctypes.c_uint32(0),
        )
    finally:
        os.close(fd)


def restrict(
    read: Sequence[str], write: Sequence[str], pipes: Sequence[str] = (), *, network: bool
) -> None:
    """Confine this process and its children for ever.

    Sets `no_new_privs` on the way, which the kernel asks for. Device nodes can never be made.

    Args:
        read: paths that may be read and executed, with all below them.
        write: paths that may be changed as well.
        pipes: paths below which existing files may be written to, and no more.
        network: False denies TCP where the ABI can (UDP needs seccomp).

    Raises:
        OSError: the kernel refuses.
    """
    version = abi()
    handled = _rights(version)
    _enforce(version, handled, network, lambda ruleset: _add(ruleset, handled, read, write, pipes))


def scope() -> None:
    """Keep signals and abstract sockets inside, and restrict nothing else; no effect before ABI 6.

    For a sandbox that shares the host's network namespace, where abstract sockets live.
    """
    version = abi()
    if scopes_signals(version):
        _enforce(version, 0, True, lambda ruleset: None)


def _add(
    ruleset: int, handled: int, read: Sequence[str], write: Sequence[str], pipes: Sequence[str]
) -> None:
    for path in read:
        _allow(ruleset, path, handled & _READ)
    for path in write:
        _allow(ruleset, path, handled & ~_MAKE_CHAR & ~_MAKE_BLOCK)
    for path in pipes:
        _allow(ruleset, path, handled & _WRITE_FILE)


def _enforce(version: int, handled: int, network: bool, fill: Callable[[int], None]) -> None:
    attr = struct.pack(
        "=QQQ",
        handled,
        _TCP if version >= _NET_ABI and not network else 0,
        _SCOPES if version >= _SCOPE_ABI else 0,
    )
    size = 24 if version >= _SCOPE_ABI else 16 if version >= _NET_ABI else 8
    ruleset = _call(_CREATE, ctypes.c_char_p(attr), ctypes.c_size_t(size), ctypes.c_uint32(0))
    try:
        fill(ruleset)
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
        _call(_RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)
