"""A child process from its beginning to its end: lines to whoever listens, the rest to a log."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from deerflow.errors import StorageError, UsageError

Told = Callable[[str], None]
"""Hears a line."""

LONGEST_LINE = 1 << 20


async def run(
    command: Sequence[str], environ: Mapping[str, str], log: Path, told: Told | None = None
) -> int:
    """Run a command to its end; when this is cancelled, it and all its children are killed.

    Args:
        command: program and arguments.
        environ: its whole environment.
        log: file for its stderr; for its stdout too when nobody listens.
        told: hears the lines of its stdout.

    Returns:
        Its exit code.

    Raises:
        UsageError: it cannot be started.
        StorageError: the log cannot be written.
    """
    descriptor = await asyncio.to_thread(_opened, log)
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=descriptor if told is None else asyncio.subprocess.PIPE,
            stderr=descriptor,
            env=dict(environ),
            start_new_session=True,
            limit=LONGEST_LINE,
        )
    except OSError as error:
        raise UsageError(f"{command[0]} cannot be started ({error.strerror}).") from error
    finally:
        os.close(descriptor)
    try:
        if process.stdout is not None and told is not None:
            async for line in process.stdout:
                told(line.decode("utf-8", "replace").rstrip())
        return await process.wait()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def _opened(log: Path) -> int:
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StorageError(
            f"{log} cannot be written ({error.strerror}).", cure="Choose another folder."
        ) from error


def last_lines(log: Path, count: int = 3) -> str:
    """The last lines of a log that say something, on one line."""
    with contextlib.suppress(OSError):
        data = log.read_bytes()[-8_000:].decode("utf-8", "replace")
        lines = [line.strip() for line in data.splitlines() if line.strip()]
        return " | ".join(lines[-count:])[-600:]
    return ""
