"""The launcher: a small process that forks sandboxes, adopts their orphans and ends them.

It is started once per server with an empty environment, so nothing that it forks can show a
secret. The server
speaks to it over a socket, one JSON message per packet. When the server goes, in whatever way,
the socket closes
and the launcher ends every sandbox before it ends itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import signal
import socket
import sys
import time
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn

from deerflow.sandbox import confine, tree

MESSAGE_BYTES: Final = 128 * 1024
"""Largest message of the socket."""
FAILED: Final = 125
"""Exit status of a child that could not confine itself."""

SEED: Final = "deerflow-seed"
"""Name of a child that waits for its plan."""
_SEED_FD: Final = 247
_FDS: Final = 3
_CHILD: Final = re.compile(rb'"child-pid": (\d+)[^\d]')
_PATIENCE: Final = 5.0


@dataclass(slots=True)
class _Job:
    """One sandbox process: its pid, whether a warden holds it, bubblewrap's init once known."""

    name: str
    pid: int
    tree: bool
    info: int = -1
    report: bytes = b""
    init: int = 0
    status: int | None = None
    gone: bool = False

    @property
    def root(self) -> int:
        """The process whose descendants are the sandbox's."""
        return self.pid if self.tree else self.init


class Launcher:
    """Serves one socket until it closes."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._jobs: dict[str, _Job] = {}
        self._groups: set[str] = set()
        self._seeds: dict[str, _Seed] = {}
        self._selector = selectors.DefaultSelector()
        self._wake, wake = os.pipe()
        for fd in (self._wake, wake):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _ignore)
        self._wakeup = wake

    def serve(self) -> None:
        """Work until the server is gone; then end every sandbox."""
        self._selector.register(self._link, selectors.EVENT_READ, "link")
        self._selector.register(self._wake, selectors.EVENT_READ, "wake")
        try:
            while self._step(None):
                pass
        finally:
            self._link.close()
            for seed in self._seeds.values():
                os.kill(seed.pid, signal.SIGKILL)
                os.waitpid(seed.pid, 0)
            for job in self._jobs.values():
                self._kill(job)
            until = time.monotonic() + _PATIENCE
            while self._jobs and time.monotonic() < until:
                self._step(0.05)
            self._clear_groups()

    def _step(self, timeout: float | None) -> bool:
        open_ = True
        for key, _ in self._selector.select(timeout):
            if key.data == "link":
                open_ = self._receive()
            elif key.data == "wake":
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake, 4096)
            else:
                self._learn(key.data)
        self._reap()
        return open_

    def _receive(self) -> bool:
        if self._link.fileno() < 0:
            return False
        data, fds, _, _ = socket.recv_fds(self._link, MESSAGE_BYTES, _FDS)
        if not data:
            self._selector.unregister(self._link)
            return False
        try:
            self._obey(json.loads(data), fds)
        finally:
            for fd in fds:
                os.close(fd)
        return True

    def _obey(self, message: dict[str, Any], fds: list[int]) -> None:
        job = self._jobs.get(message.get("name", ""))
        what = message["do"]
        if what == "start":
            self._start(message["name"], message["plan"], fds)
        elif what == "seed":
            self._sow(message["groups"])
        elif what == "purge":
            self._purge(message["uid"])
        elif what == "kill" and job is not None:
            self._kill(job)
        elif what == "end_call" and job is not None and job.root:
            tree.end_call(job.root, tree.Call(*message["call"]))
        if "ask" in message:
            self._say({"is": "done", "ask": message["ask"]})

    # starting

    def _start(self, name: str, plan: dict[str, Any], fds: list[int]) -> None:
        confinement = confine.read_plan(plan)
        self._groups.update(confinement.groups)
        info, report = os.pipe() if confinement.bubblewrap else (-1, -1)
        seed = self._seeds.pop(_key(confinement.groups), None)
        if seed is None or not seed.grow(plan, [*fds, *([report] if report >= 0 else [])]):
            pid = os.fork()
            if pid == 0:
                _ready_child()
                _become(confinement, [*fds, report])
        else:
            pid = seed.pid
        if report >= 0:
            os.close(report)
            os.set_blocking(info, False)
            self._selector.register(info, selectors.EVENT_READ, name)
        self._jobs[name] = _Job(name, pid, confinement.tree, info)

    def _sow(self, groups: list[str]) -> None:
        """Fork a child ahead of its plan: to join a control group can take 13 ms."""
        self._groups.update(groups)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            _ready_child()
            _wait_for_plan(theirs, groups)
        theirs.close()
        self._seeds[_key(groups)] = _Seed(pid, ours)

    def _learn(self, name: str) -> None:
        """Take bubblewrap's init from its report, which comes in pieces."""
        job = self._jobs.get(name)
        if job is None or job.info < 0:
            return
        try:
            piece = os.read(job.info, 4096)
        except BlockingIOError:
            return
        job.report += piece
        found = _CHILD.search(job.report)
        if found:
            job.init = int(found[1])
        if not piece:
            self._forget_info(job)

    def _forget_info(self, job: _Job) -> None:
        if job.info >= 0:
            self._selector.unregister(job.info)
            os.close(job.info)
            job.info = -1

    # ending

    def _kill(self, job: _Job) -> None:
        if job.tree:
            if job.status is None:
                os.kill(job.pid, signal.SIGTERM)
            return
        self._learn(job.name)
        for pid, dead in ((job.init, job.gone), (job.pid, job.status is not None)):
            if pid and not dead:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        """Reap our children and every adopted orphan; tell when a sandbox has no process left."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                self._seeds = {k: seed for k, seed in self._seeds.items() if seed.pid != pid}
                for job in self._jobs.values():
                    if job.pid == pid:
                        job.status = os.waitstatus_to_exitcode(status)
                    elif job.init == pid:
                        job.gone = True
        for job in list(self._jobs.values()):
            self._settle(job)

    def _settle(self, job: _Job) -> None:
        if job.status is None:
            return
        if not job.init:
            self._learn(job.name)  # the writer is dead: the end comes
        if job.tree or not job.init or job.gone or not os.path.exists(f"/proc/{job.init}"):
            self._forget_info(job)
            del self._jobs[job.name]
            self._say({"is": "gone", "name": job.name, "status": job.status})

    def _purge(self, uid: int) -> None:
        """Kill every process of a sandbox's uid: what a crashed predecessor may have left."""
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(OSError):
                os.setresuid(uid, uid, uid)
                os.kill(-1, signal.SIGKILL)
            os._exit(0)
        os.waitpid(pid, 0)

    def _clear_groups(self) -> None:
        """Remove the cgroups that the server can remove no more."""
        for path in self._groups:
            with contextlib.suppress(OSError):
                os.rmdir(os.path.dirname(path))

    def _say(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            self._link.send(json.dumps(message).encode())


@dataclass(slots=True)
class _Seed:
    """A child that is in its control groups and waits for a plan."""

    pid: int
    link: socket.socket

    def grow(self, plan: dict[str, Any], fds: list[int]) -> bool:
        """Hand it the plan; False when it is gone."""
        try:
            socket.send_fds(self.link, [json.dumps(plan).encode()], fds)
        except OSError:
            return False
        finally:
            self.link.close()
        return True


def _key(groups: list[str]) -> str:
    return "\0".join(groups) or "none"


def _ready_child() -> None:
    """Undo what the launcher set up for itself."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()


def _wait_for_plan(link: socket.socket, groups: list[str]) -> NoReturn:
    try:
        confine.die_with_parent()
        os.dup2(link.fileno(), _SEED_FD)
        os.closerange(3, _SEED_FD)
        os.closerange(_SEED_FD + 1, 4096)
        confine.name_process(SEED)
        confine.join(groups)
        with socket.socket(fileno=_SEED_FD) as own:
            data, fds, _, _ = socket.recv_fds(own, MESSAGE_BYTES, _FDS + 1)
        if data:
            plan = confine.read_plan(json.loads(data))
            _become(replace(plan, groups=[]), [*fds, -1][: _FDS + 1])
    except OSError:
        pass  # the launcher is gone, or the group is: nobody waits for this child any more
    finally:
        os._exit(FAILED)


def _become(plan: confine.Confinement, fds: list[int]) -> NoReturn:
    try:
        _lay_out(fds[:_FDS], fds[_FDS])
        if plan.tree:
            _guard(plan)
        else:
            confine.enter(plan)
    except OSError as error:
        os.write(2, f"launcher: {error}\n".encode())
    finally:
        os._exit(FAILED)


def _lay_out(fds: list[int], report: int) -> None:
    """Descriptors of the child: null, null, errors, then those of `confine`; all others closed."""
    commands, replies, errors = fds
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.dup2(errors, 2)
    os.dup2(commands, confine.COMMANDS_FD)
    os.dup2(replies, confine.REPLIES_FD)
    if report >= 0:
        os.dup2(report, confine.INFO_FD)
    os.closerange(3, confine.INFO_FD)
    os.closerange(confine.REPLIES_FD + 1, 4096)
    os.dup2(confine.REPLIES_FD, confine.KEEPER_FD)


def _ignore(number: int, frame: object) -> None:
    """A handler must exist for the wake-up descriptor to be written."""


def _guard(plan: confine.Confinement) -> NoReturn:
    """Hold a tree that no pid namespace holds; end all of it with its shell or on SIGTERM."""
    confine.become_subreaper()
    parent = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD})
    confine.die_with_parent(signal.SIGTERM)
    shell = os.fork()
    if shell == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGCHLD})
        try:
            confine.enter(plan)
        except OSError as error:
            os.write(2, f"launcher: {error}\n".encode())
        finally:
            os._exit(FAILED)
    os.closerange(3, 256)
    status = 0
    alive = True
    while alive:
        number = signal.sigwait({signal.SIGTERM, signal.SIGCHLD})
        alive = number == signal.SIGCHLD
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == shell:
                    alive, status = False, os.waitstatus_to_exitcode(found[1])
    tree.end_below(parent)
    os._exit(status & 0xFF)


def main() -> None:
    """Entry: the socket's descriptor is the only argument."""
    link = socket.socket(fileno=int(sys.argv[1]))
    confine.become_subreaper()
    Launcher(link).serve()
