"""Runs our own Python text on data: in a thread's sandbox, or in a confined child process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from deerflow.errors import SandboxError
from deerflow.sandbox.protocol import WORKSPACE, Sandbox, SandboxProvider, ThreadFolders

AGENT = "verify"
"""Whose shell of the sandbox runs checks."""
_PLACE = f"{WORKSPACE}/.tool-results"


@dataclass(frozen=True, slots=True)
class Ran:
    """What a program left.

    Attributes:
        exit_code: of the interpreter.
        output: what it printed, at most `Limits.output_bytes`.
        limit: "time", "memory" or "output" where a limit ended it, else "".
    """

    exit_code: int
    output: str
    limit: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may use: seconds of CPU and of the clock, bytes of memory and of output."""

    cpu_seconds: int = 10
    wall_seconds: float = 20.0
    memory_bytes: int = 512 * 2**20
    output_bytes: int = 64 * 2**10


class PythonRunner(Protocol):
    """Runs program text of ours; data never becomes program text."""

    async def run(self, program: str, data: bytes) -> Ran:
        """What the program left after it was given the data on standard input.

        Raises:
            SandboxError: there is no interpreter to run it.
        """
        ...


@dataclass(frozen=True, slots=True)
class SandboxPython:
    """Runs programs with the Python of a thread's sandbox.

    Attributes:
        sandbox: gives the sandbox, starts it where needed.
        limits: for each run.
    """

    sandbox: Callable[[], Awaitable[Sandbox]]
    limits: Limits = field(default_factory=Limits)

    @classmethod
    def of(cls, provider: SandboxProvider, key: str, folders: ThreadFolders) -> SandboxPython:
        """For the sandbox of a thread key."""

        async def acquire() -> Sandbox:
            return await provider.acquire(key, folders)

        return cls(acquire)

    async def run(self, program: str, data: bytes) -> Ran:
        """See PythonRunner."""
        sandbox = await self.sandbox()
        name = f"{_PLACE}/check-{uuid.uuid4().hex[:12]}"
        code, given = shlex.quote(f"{name}.py"), shlex.quote(f"{name}.json")
        await sandbox.write(f"{name}.py", program.encode())
        await sandbox.write(f"{name}.json", data)
        limits = self.limits
        result = await sandbox.run(
            f"(ulimit -t {limits.cpu_seconds} -v {limits.memory_bytes // 1024};"
            f" PYTHONIOENCODING=utf-8 python -B {code} < {given} 2>&1);"
            f" code=$?; rm -f {code} {given}; (exit $code)",
            agent=AGENT,
            alone=False,
            timeout=limits.wall_seconds,
        )
        output = result.output[-limits.output_bytes :]
        limit = "time" if result.timed_out else result.limit or _told(result.exit_code, output)
        if result.total_bytes > limits.output_bytes:
            limit = limit or "output"
        return Ran(result.exit_code, output, limit)


_LAUNCH = """\
import resource, runpy, sys
cpu, memory = int(sys.argv[1]), int(sys.argv[2])
for name, size in (("CPU", cpu), ("AS", memory), ("FSIZE", 0), ("CORE", 0), ("NOFILE", 64)):
    resource.setrlimit(getattr(resource, "RLIMIT_" + name), (size, size))
def refuse(event, arguments):
    if event.startswith(("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn",
                         "os.fork", "os.putenv", "ctypes.")):
        raise PermissionError(event)
script = sys.argv[3]
import random, sympy
sys.addaudithook(refuse)
runpy.run_path(script, run_name="__main__")
"""
"""Limits are set before anything of the data is read; a hook refuses what no check needs."""


class ChildPython:
    """Runs programs in a child process: limits, an empty environment, a folder of its own.

    Where bubblewrap works, the child also has no network and cannot write to the machine.
    """

    def __init__(
        self,
        python: str = sys.executable,
        limits: Limits | None = None,
        bwrap: str | None = shutil.which("bwrap"),
    ) -> None:
        """With an interpreter that has sympy; `bwrap` None leaves bubblewrap out."""
        self._python = python
        self._limits = limits or Limits()
        self._bwrap = bwrap
        self._works: asyncio.Task[bool] | None = None

    async def run(self, program: str, data: bytes) -> Ran:
        """See PythonRunner."""
        confined = await self._confined()
        folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="check-")
        try:
            script = Path(folder, "check.py")
            await asyncio.to_thread(script.write_text, program, encoding="utf-8")
            return await self._child(folder, str(script), data, confined=confined)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _confined(self) -> bool:
        """Whether bubblewrap works here; tried once."""
        if self._bwrap is None:
            return False
        if self._works is None:
            self._works = asyncio.create_task(self._try())
        return await asyncio.shield(self._works)

    async def _try(self) -> bool:
        try:
            process = await asyncio.create_subprocess_exec(
                *self._around("/tmp"),  # noqa: S108  (only looked at)
                "true",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )
        except OSError:
            return False
        return await process.wait() == 0

    def _around(self, folder: str) -> list[str]:
        return [
            *(self._bwrap or "", "--ro-bind", "/", "/", "--dev", "/dev", "--bind", folder, folder),
            *("--unshare-all", "--die-with-parent", "--new-session", "--chdir", folder, "--"),
        ]

    async def _child(self, folder: str, script: str, data: bytes, *, confined: bool) -> Ran:
        limits = self._limits
        arguments = [*(self._around(folder) if confined else ()), self._python, "-I", "-B", "-c"]
        arguments += [_LAUNCH, str(limits.cpu_seconds), str(limits.memory_bytes), script]
        try:
            process = await asyncio.create_subprocess_exec(
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                cwd=folder,
                env={},
                start_new_session=True,
            )
        except OSError:
            raise SandboxError("There is no Python to run checks with.") from None
        try:
            async with asyncio.timeout(limits.wall_seconds):
                output, cut = await self._exchange(process, data)
                if not cut:
                    code = await process.wait()
                    text = output.decode("utf-8", "replace")
                    return Ran(code, text, _told(code, text))
                return Ran(137, output.decode("utf-8", "replace"), "output")
        except TimeoutError:
            return Ran(124, "", "time")
        finally:
            await _end(process)

    async def _exchange(
        self, process: asyncio.subprocess.Process, data: bytes
    ) -> tuple[bytes, bool]:
        """Gives the data, takes the output; True with it when there is more than may be."""
        assert process.stdin is not None and process.stdout is not None  # noqa: S101  (pipes)
        feeding = asyncio.create_task(_feed(process.stdin, data))
        try:
            output = b""
            while part := await process.stdout.read(2**14):
                output += part
                if len(output) > self._limits.output_bytes:
                    return output[: self._limits.output_bytes], True
            return output, False
        finally:
            feeding.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await feeding


async def _feed(stream: asyncio.StreamWriter, data: bytes) -> None:
    with contextlib.suppress(ConnectionError):
        stream.write(data)
        await stream.drain()
        stream.close()


async def _end(process: asyncio.subprocess.Process) -> None:
    """Nothing of the child's session lives on."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        # A pipe that nobody reads to its end would keep the wait for ever.
        while process.stdout is not None and await process.stdout.read(2**16):
            pass
        await process.wait()


def _told(code: int, output: str) -> str:
    """The limit that an exit code or a last line tells of."""
    if code in (-signal.SIGXCPU, -signal.SIGKILL, 128 + signal.SIGXCPU, 128 + signal.SIGKILL):
        return "time"
    return "memory" if code != 0 and "MemoryError" in output[-200:] else ""
