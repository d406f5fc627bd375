"""The `deerflow` command as a user meets it: a process of its own in a folder of its own."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import pty
import re
import select
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SECONDS = 60
"""Far more than any command needs on a busy machine."""
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
SCRIPTED = "deerflow.models.scripted:ScriptedChatModel"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: exit code, stdout, stderr."""

    code: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        """The lines of --json."""
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass(slots=True)
class Desk:
    """A folder with a config.yaml whose model plays a script.

    Attributes:
        folder: where the commands run; the home is `.deer-flow` below it.
    """

    folder: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def write(self, script: Any, *, sandbox: str = "memory", **sections: Any) -> None:
        """Write config.yaml (JSON is YAML)."""
        model = {"name": "scripted", "use": SCRIPTED, "script": script}
        raw = {"models": [model], "sandbox": {"use": sandbox}, **sections}
        (self.folder / "config.yaml").write_text(
            json.dumps(raw, ensure_ascii=False), encoding="utf-8"
        )

    def run(self, *args: str | bytes, stdin: bytes = b"", **env: str) -> Ended:
        """Run `deerflow ARGS` to its end."""
        done = subprocess.run(
            command(*args),
            cwd=self.folder,
            env=environment(**env),
            input=stdin,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *args: str, **env: str) -> subprocess.Popen[str]:
        """Start `deerflow ARGS` with pipes; `close` ends what a failed test leaves."""
        process = subprocess.Popen(
            command(*args),
            cwd=self.folder,
            env=environment(**env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self.started.append(process)
        return process

    def close(self) -> None:
        """End the processes that still run, and with them their sandboxes."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.communicate()

    def tree(self) -> dict[str, str]:
        """Every path below the folder with the digest of its content."""
        return {
            path.relative_to(self.folder).as_posix(): _digest(path)
            for path in sorted(self.folder.rglob("*"))
        }


class Screen:
    """A command on a pseudo-terminal; `text` is all that it wrote."""

    def __init__(self, desk: Desk, *args: str, **env: str) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            command(*args),
            cwd=desk.folder,
            env=environment(TERM="xterm-256color", COLUMNS="90", LINES="30", **env),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.text = ""
        self._rest = b""

    @property
    def plain(self) -> str:
        """What was written, without escape sequences."""
        return ESCAPE.sub("", self.text).replace("\r", "")

    def until(self, wanted: str) -> None:
        """Read until a text has appeared."""
        while wanted not in self.plain:
            assert self._read(), f"{wanted!r} never came:\n{self.plain}"

    def end(self) -> int:
        """Read to the end; the exit code."""
        while self._read():
            pass
        os.close(self._master)
        return self.process.wait(SECONDS)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._master], [], [], SECONDS)
        assert ready, f"silent for {SECONDS} s:\n{self.plain}"
        try:
            data = os.read(self._master, 65536)
        except OSError as error:
            if error.errno != errno.EIO:  # Linux says so when the last writer has gone
                raise
            data = b""
        self._rest += data
        text = self._rest.decode(errors="ignore")
        self._rest = self._rest[len(text.encode()) :]
        self.text += text
        return bool(data)


def command(*args: str | bytes) -> list[str | bytes]:
    """The argument list of `deerflow ARGS`."""
    return [sys.executable, "-m", "deerflow", *args]


def environment(**more: str) -> dict[str, str]:
    """A plain environment, so that nothing of the tester's reaches the command."""
    source = Path(__file__).parents[2] / "src"
    return {"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONPATH": str(source), **more}


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal (SigCgt, proc(5))."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    (mask,) = re.findall(r"^SigCgt:\s*(\w+)$", status, re.M)
    return bool(int(mask, 16) >> (number - 1) & 1)


def _digest(path: Path) -> str:
    if path.is_symlink():
        return f"-> {path.readlink()}"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
