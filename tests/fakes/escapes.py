"""Attempts to leave a sandbox. Each returns "blocked", or what got out."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import re
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

from deerflow.errors import PathError, SandboxUnavailableError
from deerflow.sandbox.protocol import Level
from fakes.sandboxes import Bench, bench

SECRET = "correct horse battery staple"
BLOCKED = "blocked"
Attempt = Callable[[Bench], Awaitable[str]]
ATTEMPTS: dict[str, Attempt] = {}
SCRIPT = (
    "cat > /mnt/user-data/workspace/try.py <<'PY'\n{code}\nPY\n"
    "/usr/bin/python3 /mnt/user-data/workspace/try.py"
)


def attempt(function: Attempt) -> Attempt:
    """Register an attempt under its function's name."""
    ATTEMPTS[function.__name__] = function
    return function


async def _python(place: Bench, code: str, seconds: float | None = None) -> str:
    result = await place.sandbox.run(SCRIPT.format(code=code), timeout=seconds)
    return result.output


LEAKS_ON_HOST = (
    "read_host_secret",
    "read_by_symlink",
    "connect_loopback",
    "send_udp",
    "connect_abstract_socket",
    "connect_unix_socket",
    "read_server_environment",
)
"""Attempts that succeed, and do no harm, where nothing is isolated: the proof that they try."""


@attempt
async def read_etc_shadow(place: Bench) -> str:
    result = await place.sandbox.run("cat /etc/shadow /etc/gshadow /etc/shadow- 2>/dev/null")
    return result.output or BLOCKED


@attempt
async def read_host_secret(place: Bench) -> str:
    secret = place.home / "secret"
    secret.write_text(SECRET, encoding="utf-8")
    result = await place.sandbox.run(f"cat {secret} {secret.resolve()}")
    return result.output if SECRET in result.output else BLOCKED


@attempt
async def read_by_symlink(place: Bench) -> str:
    secret = place.home / "secret"
    secret.write_text(SECRET, encoding="utf-8")
    command = f"ln -sfn {secret} link; ln -sfn {secret.parent} dir; cat link dir/secret"
    result = await place.sandbox.run(command)
    if SECRET in result.output:
        return result.output
    for path in ("link", "dir/secret"):
        with contextlib.suppress(PathError):
            return (await place.sandbox.read(path)).decode()
    return BLOCKED


@attempt
async def write_outside(place: Bench) -> str:
    targets = [place.home / "out", Path("/usr/deerflow-test"), Path("/etc/deerflow-test")]
    targets += [place.home / "skills" / "public" / "out", Path("/deerflow-test")]
    inside = "/mnt/skills/public/out /opt/python/out /run/deerflow/out /dev/out /mnt/out"
    names = " ".join(map(str, targets))
    await place.sandbox.run(f"for f in {names} {inside}; do echo out > $f; done")
    found = [str(path) for path in targets if path.exists()]
    result = await place.sandbox.run(f"for f in {inside}; do test -e $f && echo wrote $f; done")
    return " ".join(found) + result.output or BLOCKED


@attempt
async def connect_loopback(place: Bench) -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        server.settimeout(0)
        await place.sandbox.run(f"timeout 2 bash -c 'echo hello > /dev/tcp/127.0.0.1/{port}'")
        with contextlib.suppress(BlockingIOError):
            server.accept()
            return "connected"
    return BLOCKED


@attempt
async def send_udp(place: Bench) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.setblocking(False)
        port = server.getsockname()[1]
        await place.sandbox.run(f"timeout 2 bash -c 'echo hello > /dev/udp/127.0.0.1/{port}'")
        with contextlib.suppress(BlockingIOError):
            return server.recv(100).decode()
    return BLOCKED


@attempt
async def connect_abstract_socket(place: Bench) -> str:
    name = f"deerflow-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{name}")
        server.listen()
        server.setblocking(False)
        code = f"import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('\\0{name}')"
        await _python(place, code)
        with contextlib.suppress(BlockingIOError):
            server.accept()
            return "connected"
    return BLOCKED


@attempt
async def connect_unix_socket(place: Bench) -> str:
    path = place.folders.root.parent / "s"
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(path.parent)  # the name may be longer than an address
        try:
            path.unlink(missing_ok=True)
            server.bind("s")
            path.chmod(0o777)
        finally:
            os.chdir(here)
        server.listen()
        server.setblocking(False)
        code = (
            f"import os, socket\nos.chdir({str(path.parent)!r})\n"
            "s = socket.socket(socket.AF_UNIX)\ns.connect('s')"
        )
        await _python(place, code)
        with contextlib.suppress(BlockingIOError):
            server.accept()
            return "connected"
    return BLOCKED


@attempt
async def open_vsock(place: Bench) -> str:
    out = await _python(place, "import socket\nsocket.socket(40, 1, 0)\nprint('opened')")
    return out if "opened" in out else BLOCKED


@attempt
async def signal_host_process(place: Bench) -> str:
    owner = place.sandbox.estate.owner
    uid = owner[0] if owner is not None else None
    victim = await asyncio.create_subprocess_exec("/bin/sleep", "60", user=uid, group=uid)
    try:
        await place.sandbox.run(
            f"kill -9 {victim.pid}; kill -9 {os.getpid()}; kill -9 {os.getppid()}"
        )
        return BLOCKED if victim.returncode is None else "killed"
    finally:
        victim.kill()
        await victim.wait()


@attempt
async def read_server_environment(place: Bench) -> str:
    owner = place.sandbox.estate.owner
    uid = owner[0] if owner is not None else None
    variables = {"DEERFLOW_TEST_SECRET": SECRET}
    holder = await asyncio.create_subprocess_exec(
        "/bin/sleep", "60", env=variables, user=uid, group=uid
    )
    try:
        command = "(env; cat /proc/1/environ /proc/self/environ /proc/*/environ) 2>/dev/null"
        result = await place.sandbox.run(
            f"{command} | tr '\\0' '\\n' | grep -a DEERFLOW_TEST_SECRET"
        )
        return result.output or BLOCKED
    finally:
        holder.kill()
        await holder.wait()


_SYSCALLS = """
import ctypes, errno, os, platform
libc = ctypes.CDLL(None, use_errno=True)
column = 1 if platform.machine() == "aarch64" else 0
def call(name, numbers, *args):
    ctypes.set_errno(0)
    result = libc.syscall(numbers[column], *args)
    if result >= 0 or ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS):
        print("open:", name, result, errno.errorcode.get(ctypes.get_errno()))
buffer = ctypes.create_string_buffer(256)
call("unshare user", (272, 97), 0x10000000)
call("unshare mount", (272, 97), 0x00020000)
call("setns", (308, 268), 0, 0)
call("clone3", (435, 435), buffer, 88)
call("clone user", (56, 220), 0x10000011, 0, 0, 0, 0) if os.getpid() else None
call("io_uring_setup", (425, 425), 8, buffer)
call("keyctl", (250, 219), 0, -3, 0)
call("add_key", (248, 217), b"user", b"x", b"y", 1, -2)
call("ptrace", (101, 117), 16, os.getppid(), 0, 0)
call("bpf", (321, 280), 0, buffer, 128)
call("perf_event_open", (298, 241), buffer, 0, -1, -1, 0)
call("userfaultfd", (323, 282), 0)
call("mount", (165, 40), b"none", b"/tmp", b"tmpfs", 0, 0)
call("kexec_load", (246, 104), 0, 0, 0, 0)
call("process_vm_readv", (310, 270), os.getppid(), 0, 0, 0, 0, 0)
call("open_by_handle_at", (304, 265), -100, buffer, 0)
print("done")
"""


@attempt
async def use_kernel_interfaces(place: Bench) -> str:
    out = await _python(place, _SYSCALLS)
    return BLOCKED if out == "done\n" else out


_FORKS = """
import os, signal, time
children = []
for _ in range(1500):
    try:
        child = os.fork()
    except OSError:
        break
    if child == 0:
        time.sleep(30)
        os._exit(0)
    children.append(child)
print("forked", len(children), flush=True)
for child in children:
    os.kill(child, signal.SIGKILL)
"""


@attempt
async def fork_bomb(place: Bench) -> str:
    out = await _python(place, _FORKS)
    count = int(re.search(r"forked (\d+)", out)[1])  # type: ignore[index]
    most = place.sandbox.estate.ground.site.limits.pids + 16
    return BLOCKED if count <= most else out


_MEMORY = """
blocks = []
for i in range(96):
    blocks.append(bytearray(32 << 20))
    print(32 * (i + 1), flush=True)
"""


@attempt
async def memory_bomb(place: Bench) -> str:
    out = await _python(place, _MEMORY)
    reached = max([int(n) for n in re.findall(r"^(\d+)$", out, re.MULTILINE)], default=0)
    return BLOCKED if reached < place.sandbox.estate.ground.site.limits.memory_mb else out[-60:]


@attempt
async def fill_tmp(place: Bench) -> str:
    command = "for i in 1 2 3 4 5 6 7 8 9; do head -c 8M /dev/zero > /tmp/fill$i; done; du -sm /tmp"
    result = await place.sandbox.run(command)
    size = re.search(r"^(\d+)\s+/tmp$", result.output, re.MULTILINE)
    limits = place.sandbox.estate.ground.site.limits
    await place.sandbox.run("rm -f /tmp/fill*")
    got = int(size[1]) if size else 0
    return BLOCKED if got <= max(limits.tmp_mb, limits.disk_mb) else result.output


@attempt
async def fill_shared_memory(place: Bench) -> str:
    command = "for i in $(seq 12); do head -c 8M /dev/zero > /dev/shm/f$i; done; du -sm /dev/shm"
    result = await place.sandbox.run(command)
    size = re.search(r"^(\d+)\s+/dev/shm$", result.output, re.MULTILINE)
    await place.sandbox.run("rm -f /dev/shm/f*")
    return BLOCKED if size is None or int(size[1]) <= 64 else result.output


async def try_all(level: Level, folder: Path) -> dict[str, str]:
    """Every attempt in one sandbox; {"unavailable": reason} where the level cannot be had."""
    try:
        async with bench(level, folder) as place:
            names = LEAKS_ON_HOST if level == "host" else tuple(ATTEMPTS)
            return {name: await ATTEMPTS[name](place) for name in names}
    except SandboxUnavailableError as error:
        return {"unavailable": str(error)}


def main() -> None:
    """Run by the suite in an own process: level, folder, uid (-1 to stay), interpreter."""
    level, folder, uid, interpreter = sys.argv[1:]
    if int(uid) >= 0:
        for name in ("concurrent.futures.thread", "encodings.idna", "encodings.ascii"):
            importlib.import_module(name)  # now: the other uid may not reach this interpreter
        sys.executable = interpreter  # what this user can start; ours may lie in root's home
        os.setgroups([])
        os.setresgid(int(uid), int(uid), int(uid))
        os.setresuid(int(uid), int(uid), int(uid))
    found = asyncio.run(try_all(cast(Level, level), Path(folder)))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
