"""What goes to the terminal: UTF-8 in any locale, no control characters, no surprise at the end."""

from __future__ import annotations

import contextlib
import io
import os
import sys

_KEPT = "\n\t"


def prepare() -> None:
    """Make stdout and stderr UTF-8 whatever the locale says; a closed one takes nothing."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
        elif stream is None:  # started with the descriptor closed
            sink = os.open(os.devnull, os.O_WRONLY)
            setattr(sys, name, open(sink, "w", encoding="utf-8"))  # for good


def say(text: str) -> None:
    """A line for the reader of the result (stdout)."""
    sys.stdout.write(f"{plain(text) if sys.stdout.isatty() else text}\n")


def note(text: str) -> None:
    """A line for the person at the terminal (stderr)."""
    sys.stderr.write(f"{plain(text)}\n")
    sys.stderr.flush()


def write_line(data: bytes) -> None:
    """One line on stdout, at once; blocks while the reader is slow."""
    sys.stdout.buffer.write(data + b"\n")
    sys.stdout.buffer.flush()


def plain(text: str) -> str:
    """The text without control characters, so that a model cannot steer the terminal."""
    if text.isprintable():
        return text
    return "".join(c for c in text if c in _KEPT or not _steers(c))


def one_line(text: str) -> str:
    """White space joined, control characters left out."""
    return plain(" ".join(text.split()))


def flush() -> None:
    """Push out what is buffered.

    Raises:
        BrokenPipeError: nobody reads it.
        OSError: it cannot be written.
    """
    sys.stdout.flush()
    sys.stderr.flush()


def discard() -> None:
    """Let stdout lead nowhere, so that the interpreter's own flush at the end stays silent."""
    with contextlib.suppress(OSError, ValueError):
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, sys.stdout.fileno())
        os.close(sink)


def text_of(argument: str) -> str | None:
    """A command-line argument as UTF-8 whatever the locale; None when it is not UTF-8."""
    try:
        return os.fsencode(argument).decode()
    except UnicodeDecodeError:
        return None


def _steers(character: str) -> bool:
    code = ord(character)
    return code < 0x20 or 0x7F <= code < 0xA0
