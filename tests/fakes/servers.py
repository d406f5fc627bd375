"""A PostgreSQL server of one test, which may be stopped and started again."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

USER = "postgres"


def _programs() -> Path | None:
    """Where initdb and pg_ctl lie; the newest version counts."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    if found:
        return found[-1].parent
    path = shutil.which("pg_ctl")
    return None if path is None else Path(path).parent


class PrivateServer:
    """A cluster in a folder of its own, on a free port of loopback."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._data = folder / "data"
        self._log = folder / "log"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._run("initdb", "-A", "trust", "-U", USER, "--no-sync", "-E", "UTF8")

    @property
    def url(self) -> str:
        """Address of its database."""
        return f"postgresql://{USER}@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        """Start it and wait until it answers."""
        options = f"-p {self._port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=''"
        self._run("pg_ctl", "-w", "-l", str(self._log), "-o", options, "start")

    def stop(self) -> None:
        """Stop it at once: open transactions are rolled back, connections are cut."""
        self._run("pg_ctl", "-w", "-m", "fast", "stop")

    def _run(self, program: str, *arguments: str) -> None:
        more: dict[str, Any] = {"user": USER, "extra_groups": []} if os.getuid() == 0 else {}
        command = [str(self._programs / program), "-D", str(self._data), *arguments]
        subprocess.run(
            command, check=True, stdout=subprocess.DEVNULL, cwd=self._data.parent, **more
        )


@contextmanager
def private_server() -> Iterator[PrivateServer]:
    """A running server; its folder goes with it. Skips where PostgreSQL is not installed."""
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL's programs are not installed")
    folder = Path(tempfile.mkdtemp(prefix="deerflow-pg-"))
    try:
        if os.getuid() == 0:
            shutil.chown(folder, USER, USER)
        server = PrivateServer(programs, folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
