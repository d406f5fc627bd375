"""Has one document converted by a limited child; a hostile one fails alone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from dataclasses import dataclass
from typing import Final

from deerflow.gateway.documents import child

MIB: Final = 1 << 20
INSTALL: Final = "pip install 'deerflow[documents]' (for PDF by markitdown 'markitdown[pdf]')"
_ENVIRONMENT: Final = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"}
_SAID: Final = {
    child.MISSING: f"a library is missing; install it: {INSTALL}",
    child.MEMORY: "it needs too much memory",
    child.EMPTY: "there is no text in it",
    child.OPEN: "this machine cannot confine the converter",
    -signal.SIGXCPU: "it takes too long",
}


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a conversion may use: bytes of memory, seconds, bytes of Markdown."""

    memory: int = 1024 * MIB
    seconds: int = 60
    text: int = 8 * MIB


@dataclass(frozen=True, slots=True)
class Converted:
    """Markdown, or "" and why there is none."""

    text: bytes
    error: str = ""


def can_convert(name: str) -> bool:
    """Whether a file of this name is a document."""
    return os.path.splitext(name)[1].lower() in child.SUFFIXES


async def to_markdown(
    document: int, name: str, converter: str, bounds: Bounds = Bounds()
) -> Converted:
    """Convert an open file.

    The child has an empty environment, no network, no file but this one, and is killed with all
    that it started when its time is up or this call is cancelled.

    Args:
        document: its descriptor; read from the beginning.
        name: its name; the suffix tells the kind.
        converter: uploads.pdf_converter of the configuration.
        bounds: of the child.
    """
    suffix = os.path.splitext(name)[1].lower()
    program = ("-I", "-B", "-m", "deerflow.gateway.documents.child", suffix, converter)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *program,
        str(bounds.memory),
        str(bounds.seconds),
        stdin=document,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=_ENVIRONMENT,
        cwd="/",
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(bounds.seconds):
            text = await _read(process.stdout, bounds.text)
            if text is None:
                return Converted(b"", "it holds too much text")
            code = await process.wait()
    except TimeoutError:
        return Converted(b"", _SAID[-signal.SIGXCPU])
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    if code:
        return Converted(b"", _SAID.get(code, "it is damaged, or no document of this kind"))
    return Converted(text)


async def _read(stream: asyncio.StreamReader | None, limit: int) -> bytes | None:
    """All of it, or None when it is more than the limit."""
    parts: list[bytes] = []
    size = 0
    while stream is not None and (part := await stream.read(1 << 16)):
        parts.append(part)
        size += len(part)
        if size > limit:
            return None
    return b"".join(parts)
