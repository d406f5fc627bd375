"""One agent's persistent bash: commands alone or in forks, time-outs, restarts where it was."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass
from itertools import count
from typing import Final

from deerflow.errors import SandboxError
from deerflow.sandbox.call import RunningCall
from deerflow.sandbox.capture import Capture, Spill
from deerflow.sandbox.cgroup import Group
from deerflow.sandbox.confine import Confinement
from deerflow.sandbox.drain import Drain
from deerflow.sandbox.limits import DiskMeter
from deerflow.sandbox.nursery import Nursery
from deerflow.sandbox.paths import WORKSPACE
from deerflow.sandbox.pipes import OutputPipes
from deerflow.sandbox.protocol import CommandResult
from deerflow.sandbox.site import Site, View
from deerflow.sandbox.turns import Turns
from deerflow.sandbox.wire import Wire

START_SECONDS: Final = 15.0
"""How long a shell may take to answer first."""
STOP_SECONDS: Final = 2.0
"""How long a stopped command may take to be gone before its whole shell is ended."""
TIMED_OUT: Final = 124
KILLED: Final = 137
FILE_LIMIT: Final = 153
"""Exit code after SIGXFSZ."""
_STARTS: Final = 2
_SLOW: Final = 0.1
_LONGEST_STATE: Final = 256 * 1024
_CURE: Final = "Run `deerflow doctor` on the server to see what the sandbox lacks."


@dataclass(frozen=True, slots=True)
class Ground:
    """What the shells of one sandbox share.

    Attributes:
        site, view, plan: where they stand, what they see, how each starts.
        nursery, drain, pipes: processes, long outputs, short outputs.
        meter: disk usage of the thread.
        group: control group, None without.
        max_chars: longest output text.
        numbers: numbers of calls.
    """

    site: Site
    view: View
    plan: Confinement
    nursery: Nursery
    drain: Drain
    pipes: OutputPipes
    meter: DiskMeter
    group: Group | None
    max_chars: int
    numbers: count[int]


class Shell:
    """One bash that keeps directory, variables and functions between commands.

    Args:
        ground: what it shares with the sandbox's other shells.
        cwd: virtual directory to start in, "" for the workspace.
    """

    def __init__(self, ground: Ground, cwd: str = "") -> None:
        self._ground = ground
        self._cwd = cwd or WORKSPACE
        self._state = b""
        self._wire: Wire | None = None
        self._leader = 0
        self._ready = asyncio.Event()
        self._starting = asyncio.Lock()
        self._turns = Turns()
        self._calls: dict[str, RunningCall] = {}
        self._closed = False

    async def run(self, command: str, *, alone: bool, seconds: float) -> CommandResult:
        """Run one command; see `Sandbox.run`.

        Raises:
            SandboxError: the shell cannot be started or the sandbox was released.
        """
        if "\0" in command:
            raise SandboxError("A command cannot hold a NUL character.", cure="Use printf '\\0'.")
        async with self._turns.taken(alone=alone):
            await self._ensure()
            call = await self._send(command, alone)
            try:
                await self._follow(call, seconds)
            finally:
                self._calls.pop(call.number, None)
            return await self._result(call)

    async def close(self) -> None:
        """End it with everything that runs in it."""
        self._closed = True
        if self._wire is not None:
            await self._wire.end()
        async with self._starting:  # a start that was under way sees the flag and ends itself
            if self._wire is not None:
                await self._wire.end()

    # starting

    async def _ensure(self) -> None:
        """Have a bash that waits for commands; one more start when it was killed from outside."""
        async with self._starting:
            for attempt in range(_STARTS):
                self._check_open()
                wire = self._wire or await self._open()
                if self._closed:
                    await wire.end()
                elif await self._answers(wire):
                    return
                if attempt == _STARTS - 1 and not self._closed:
                    reason = explain(wire.errors)
                    raise SandboxError(f"The sandbox's shell did not start: {reason}.", cure=_CURE)

            self._check_open()

    def _check_open(self) -> None:
        if self._closed:
            raise SandboxError("The sandbox was released.", cure="Acquire it again.")

    async def _open(self) -> Wire:
        group = self._ground.group
        if group is not None and group.gone:
            with contextlib.suppress(OSError):  # then joining it fails, and says so
                await asyncio.to_thread(group.make, self._ground.site.limits)
        self._ready.clear()
        wire = Wire(self._ground.nursery, self._hear, self._lost)
        await wire.open(self._ground.plan)
        self._wire = wire
        return wire

    async def _answers(self, wire: Wire) -> bool:
        if not await _happens(self._ready, START_SECONDS):
            await wire.end()
        return self._wire is wire

    def _restore(self) -> None:
        """Put a fresh bash where the last one was."""
        directory = self._ground.view.inward(self._cwd).replace("'", "'\\''")
        home = self._ground.view.inward(WORKSPACE).replace("'", "'\\''")
        text = self._state + f"\ncd -- '{directory}' || cd -- '{home}'\n".encode()
        if self._wire is not None:
            self._wire.send(f"restore 0 none {len(text)}\n", text)
        self._ready.set()

    # what the shell says

    def _hear(self, kind: bytes, values: list[bytes]) -> None:
        if kind == b"R":
            if self._ready.is_set():
                return  # said by a command: each restore it could ask for so would fill memory
            self._leader = _number(values[0])
            self._restore()
        elif kind == b"X":
            self._ready.clear()
            for call in self._calls.values():
                if call.alone:
                    call.finish(_number(values[0]))
        else:
            call = self._calls.get(values[0].decode("ascii", "replace"))
            if kind in (b"E", b"B"):
                self._remember(values[2], values[3])
                if kind == b"B":
                    self._ready.clear()
            if call is not None and kind == b"P":
                call.leader = _number(values[1])
            elif call is not None:
                call.finish(_number(values[1]))

    def _remember(self, cwd: bytes, state: bytes) -> None:
        self._cwd = self._ground.view.outward(cwd.decode("utf-8", "backslashreplace"))
        if len(state) <= _LONGEST_STATE:
            self._state = state

    def _lost(self) -> None:
        """No process of the shell is left."""
        self._wire = None
        for call in self._calls.values():
            call.finish(KILLED)
        self._ready.set()  # whoever waits sees that the wire is another

    # running

    async def _send(self, command: str, alone: bool) -> RunningCall:
        ground = self._ground
        number = str(next(ground.numbers))
        pipe = await ground.pipes.take()
        spill = Spill(
            ground.site.folders.root,
            f"bash-{number}-{int(time.time())}.txt",
            ground.site.owner,
            ground.meter.room,
        )
        call = RunningCall(number, alone, pipe, Capture(spill, ground.view.stream()))
        call.leader = self._leader if alone else 0
        self._calls[number] = call
        call.listen(ground.drain)
        text = ground.view.inward(command).encode("utf-8", "replace") + b"\n"
        if self._wire is None:
            call.finish(KILLED)
        else:
            kind = "alone" if alone else "fork"
            self._wire.send(f"{kind} {number} {pipe.name} {len(text)}\n", text)
        return call

    async def _follow(self, call: RunningCall, seconds: float) -> None:
        """Wait for the end; stop it at a limit or when the caller is cancelled."""
        until = call.begun + seconds
        try:
            while not call.over and not call.verdict:
                left = until - time.monotonic()
                if left <= 0:
                    call.judge("time")
                    break
                if not await _happens(call.event, min(left, self._ground.meter.pause)):
                    await self._check_disk(call)
        except asyncio.CancelledError:
            call.judge("cancelled")
            await asyncio.shield(asyncio.ensure_future(self._stop(call)))
            call.abandon(self._ground.pipes)
            raise
        if not call.over:
            await self._stop(call)

    async def _check_disk(self, call: RunningCall) -> None:
        if await asyncio.to_thread(self._ground.meter.look):
            call.judge("disk")

    async def _stop(self, call: RunningCall) -> None:
        """End the command's processes, and the whole shell when that does not help."""
        wire = self._wire
        if wire is None or wire.cradle is None:
            return
        if call.leader:
            await self._ground.nursery.end_call(wire.cradle, call.identity())
            if not call.alone:
                call.finish(KILLED)
            call.event.clear()
            if call.over or await _happens(call.event, STOP_SECONDS):
                return
        await wire.end()

    # the result

    async def _result(self, call: RunningCall) -> CommandResult:
        ground = self._ground
        seconds = time.monotonic() - call.begun
        collected = asyncio.ensure_future(call.collect(ground.drain, ground.pipes))
        await asyncio.shield(collected)  # a cancellation must not leave the pipe half read
        text, cut = await self._text(call)
        if seconds > _SLOW:
            await asyncio.to_thread(ground.meter.look)
        timed_out = call.verdict == "time"
        code = TIMED_OUT if timed_out else KILLED if call.verdict else call.code
        return CommandResult(
            exit_code=code,
            output=text,
            total_bytes=call.capture.total,
            spill=call.capture.spill.virtual if cut and not call.capture.spill.failed else None,
            timed_out=timed_out,
            limit=self._limit(call, code),
            cwd=self._cwd,
            seconds=seconds,
        )

    async def _text(self, call: RunningCall) -> tuple[str, bool]:
        limit = self._ground.max_chars
        if call.capture.total <= limit:
            return call.capture.text(limit)
        return await asyncio.to_thread(call.capture.text, limit)

    def _limit(self, call: RunningCall, code: int) -> str | None:
        if call.verdict in ("time", "disk"):
            return call.verdict
        if code == FILE_LIMIT:
            return "disk"
        struck = self._ground.group.struck() if self._ground.group is not None else None
        return struck if code or struck == "memory" else None  # a refused fork may be tried again


async def _happens(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


def _number(text: bytes) -> int:
    return int(text) if text.isdigit() and len(text) < 10 else 0


_REASONS: Final = (
    ("No permissions to create new namespace", "user namespaces are closed on this machine"),
    ("No permissions to creat", "user namespaces are closed on this machine"),
    ("Creating new namespace failed", "user namespaces are closed on this machine"),
    ("setting up uid map", "user namespaces may not map user ids on this machine"),
    ("Can't mount proc", "the container hides parts of /proc"),
    ("mount namespace", "mount namespaces are closed on this machine"),
    ("loopback", "network namespaces may not be set up on this machine"),
)


def explain(errors: str) -> str:
    """What the complaint of bubblewrap or the launcher means; never a host path."""
    for sign, meaning in _REASONS:
        if sign in errors:
            return meaning
    return "its processes ended at once" if not errors else "the isolation could not be set up"
