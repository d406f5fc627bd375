"""The filter, run by a small interpreter of its own instructions, for both architectures."""

from __future__ import annotations

import errno
import struct

import pytest

from deerflow.sandbox.seccomp import Sockets, program, supported

ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
SOCKET = {"x86_64": 41, "aarch64": 198}
CLONE = {"x86_64": 56, "aarch64": 220}
MOUNT = {"x86_64": 165, "aarch64": 40}
READ = {"x86_64": 0, "aarch64": 63}
ALLOW = 0


def verdict(code: bytes, arch: int, nr: int, *args: int) -> int:
    """errno that a call gets, 0 when it is allowed."""
    data = struct.pack("=iIQ6Q", nr, arch, 0, *(args + (0,) * 6)[:6])
    steps = list(struct.iter_unpack("=HBBI", code))
    accumulator = at = 0
    while True:
        op, true, false, value = steps[at]
        at += 1
        if op == 0x20:
            accumulator = struct.unpack_from("=I", data, value)[0]
        elif op == 0x06:
            assert value == 0x7FFF0000 or value >> 16 == 5
            return 0 if value == 0x7FFF0000 else value & 0xFFFF
        else:
            tests = {0x15: accumulator == value, 0x35: accumulator >= value}
            hit = tests.get(op, bool(accumulator & value))
            at += true if hit else false


@pytest.mark.parametrize("machine", ARCH)
def test_calls(machine: str) -> None:
    code, arch = program("inet", machine), ARCH[machine]
    assert verdict(code, arch, READ[machine]) == ALLOW
    assert verdict(code, arch, MOUNT[machine]) == errno.EPERM
    assert verdict(code, arch, 425) == errno.EPERM
    assert verdict(code, arch, 435) == errno.ENOSYS
    assert verdict(code, arch, CLONE[machine], 0x01200011) == ALLOW
    assert verdict(code, arch, CLONE[machine], 0x10000011) == errno.EPERM
    assert verdict(code, 0x40000003, READ[machine]) == errno.ENOSYS


def test_x32_calls_do_not_slip_by() -> None:
    code = program("inet", "x86_64")
    assert verdict(code, ARCH["x86_64"], 0x40000000 | MOUNT["x86_64"]) == errno.ENOSYS


@pytest.mark.parametrize("machine", ARCH)
@pytest.mark.parametrize(
    ("sockets", "open_"), [("inet", {1, 2, 10, 16}), ("inet_only", {2, 10, 16}), ("none", set())]
)
def test_families(machine: str, sockets: Sockets, open_: set[int]) -> None:
    code = program(sockets, machine)
    families = {
        family
        for family in range(48)
        if verdict(code, ARCH[machine], SOCKET[machine], family) == ALLOW
    }
    assert families == open_


def test_terminal_input_cannot_be_forged() -> None:
    code = program("inet", "x86_64")
    assert verdict(code, ARCH["x86_64"], 16, 0, 0x5412) == errno.EPERM
    assert verdict(code, ARCH["x86_64"], 16, 0, 0x5401) == ALLOW


def test_other_machines_are_refused() -> None:
    assert supported("x86_64") and not supported("riscv64")
    with pytest.raises(KeyError):
        program("inet", "riscv64")
