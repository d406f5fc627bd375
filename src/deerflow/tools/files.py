"""`read_file`, `write_file` and `str_replace`: text files as the model sees and changes them."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

from langchain_core.tools import BaseTool
from pydantic import BaseModel

from deerflow.errors import ToolError
from deerflow.sandbox.protocol import FileInfo, Sandbox
from deerflow.tools.limits import ToolLimits
from deerflow.tools.media import media_type
from deerflow.tools.place import existing_file, located
from deerflow.tools.schema import (
    Flag,
    Number,
    Runtime,
    answer,
    make_tool,
    optional,
    state_of,
)
from deerflow.tools.text import Style, decode, encode, replace, style_of
from deerflow.tools.window import View, Window

CHUNK = 1 << 20
"""Bytes read at a time from a file."""
MAX_EDIT = 16 << 20
"""Bytes of a file that str_replace and appending take."""
MAX_SCAN = 1 << 30
"""Bytes that read_file goes through to find a line."""
SAME_SECTION = 80
"""Characters from which on an appended text that the file already holds counts as doubled work."""
_SNIFF = 8192


class ReadArgs(BaseModel):
    """Arguments of read_file."""

    path: str
    start_line: Number = optional()
    end_line: Number = optional()
    start_char: Number = optional()


class WriteArgs(BaseModel):
    """Arguments of write_file."""

    path: str
    content: str
    append: Flag = optional(bool)


class ReplaceArgs(BaseModel):
    """Arguments of str_replace."""

    path: str
    old: str
    new: str
    replace_all: Flag = optional(bool)


def file_tools(limits: ToolLimits) -> list[BaseTool]:
    """The three tools, showing at most `limits.read_chars` characters."""

    async def read_file(
        path: str,
        runtime: Runtime,
        start_line: int | None = None,
        end_line: int | None = None,
        start_char: int | None = None,
    ) -> Any:
        sandbox = await runtime.context.sandbox()
        info = await existing_file(path, runtime, sandbox)
        first = max(1, start_line or 1)
        if end_line is not None and end_line < first:
            raise ToolError(f"end_line {end_line} lies before line {first}.", cure="Swap them.")
        window = Window(first, end_line, max(1, start_char or 1), limits.read_chars)
        sha256 = await _fill(window, info, sandbox)
        return answer(
            "read_file", runtime, _rendered(window, info), _newly_read(runtime, info.path, sha256)
        )

    return [
        make_tool(
            "read_file",
            "Read a text file, or a window of its lines.",
            ReadArgs,
            read_file,
            {"idempotent": True, "sandbox": True},
        ),
        make_tool(
            "write_file",
            "Write a text file, making folders; append adds at its end.",
            WriteArgs,
            write_file,
            {"sandbox": True},
        ),
        make_tool(
            "str_replace",
            "Replace exact text in a file. `old` must occur once, unless replace_all.",
            ReplaceArgs,
            str_replace,
            {"sandbox": True},
        ),
    ]


async def write_file(path: str, content: str, runtime: Runtime, append: bool = False) -> Any:
    """Write or append; an existing file keeps its byte order mark and line ends."""
    sandbox = await runtime.context.sandbox()
    target = located(path, runtime)
    info = await sandbox.stat(target)
    if info is not None and info.kind == "dir":
        raise ToolError(f"{info.path} is a directory.", cure="Name a file in it.")
    notes = ""
    expected: str | None = None
    if info is None:
        data = encode(content)
    elif append:
        old = await _whole(info, sandbox, "appending")
        data = await asyncio.to_thread(_appended, info.path, old, content)
        expected = hashlib.sha256(old).hexdigest()
    else:
        style = style_of(decode(await sandbox.read(target, length=_SNIFF)))
        data = encode(style.dress(content))
        notes = " It keeps its CRLF line ends." if style.crlf else ""
    written = await sandbox.write(target, data, expect_sha256=expected)
    lines = content.count("\n") + (not content.endswith("\n") and content != "")
    done = "Appended" if append and info is not None else "Wrote"
    unit = "line" if lines == 1 else "lines"
    text = f"{done} {lines:,} {unit}; {written.path} has {len(data):,} bytes.{notes}"
    return answer("write_file", runtime, text, _read_now(written.path, data))


async def str_replace(
    path: str, old: str, new: str, runtime: Runtime, replace_all: bool = False
) -> Any:
    """Replace text; bytes around it stay as they are, whatever their encoding."""
    sandbox = await runtime.context.sandbox()
    info = await existing_file(path, runtime, sandbox)
    before = await _whole(info, sandbox, "editing")
    _refuse_binary(before[:_SNIFF], info)
    encode(old + new)
    done = await asyncio.to_thread(replace, decode(before), old, new, everywhere=replace_all)
    data = encode(done.text)
    written = await sandbox.write(info.path, data, expect_sha256=hashlib.sha256(before).hexdigest())
    where = f"{done.count} places" if done.count > 1 else f"line {done.line}"
    note = await asyncio.to_thread(_doubled, done.text, old, new)
    text = f"Changed {where} of {written.path}.{note}"
    return answer("str_replace", runtime, text, _read_now(written.path, data))


async def _fill(window: Window, info: FileInfo, sandbox: Sandbox) -> str | None:
    """Read until the window is full; the digest of the whole file where that is to be had."""
    digest = hashlib.sha256()
    offset, full = 0, False
    while offset <= min(info.size, MAX_SCAN):
        data = await sandbox.read(info.path, offset=offset, length=CHUNK)
        if offset == 0:
            _refuse_binary(data[:_SNIFF], info)
        offset += len(data)
        digest.update(data)
        final = len(data) < CHUNK
        full = await asyncio.to_thread(window.feed, data, final=final)
        if final:
            return digest.hexdigest()
        if full:
            break
    facts = await sandbox.stat(info.path, digest=True)
    return None if facts is None else facts.sha256


def _refuse_binary(head: bytes, info: FileInfo) -> None:
    if b"\0" not in head and not head.startswith(b"%PDF-"):
        return
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ToolError(
            f"{info.path} is UTF-16 text.",
            cure=f"Convert it first: iconv -f UTF-16 -t UTF-8 {info.path!r} > copy.txt",
        )
    mime = media_type(head) or "unknown type"
    if mime.startswith("image/"):
        raise ToolError(f"{info.path} is an image ({mime}).", cure="Look at it with view_image.")
    raise ToolError(
        f"{info.path} is not text ({mime}, {info.size:,} bytes).",
        cure="Extract what you need with python or bash.",
    )


def _rendered(window: Window, info: FileInfo) -> str:
    view = window.view()
    if view is None:
        return f"[{info.path} has {window.lines:,} lines; nothing is at that line.]"
    notes: list[str] = []
    if view.stray:
        notes.append(f"{view.stray} bytes are not UTF-8 and shown as \\xNN")
    if view.next_line is not None:
        notes.append(_how_to_go_on(view, info))
    if not view.text and not notes:
        return f"[{info.path} is empty.]" if info.size == 0 else "[These lines are empty.]"
    return view.text + (f"\n[{'; '.join(notes)}]" if notes else "")


def _how_to_go_on(view: View, info: FileInfo) -> str:
    whole = f"of {info.size:,} bytes"
    if view.next_char > 1:
        return (
            f"line {view.first} cut {whole}; go on with "
            f"start_line={view.next_line}, start_char={view.next_char}"
        )
    return f"lines {view.first}-{view.last} {whole}; go on with start_line={view.next_line}"


async def _whole(info: FileInfo, sandbox: Sandbox, what: str) -> bytes:
    if info.size > MAX_EDIT:
        raise ToolError(
            f"{info.path} has {info.size:,} bytes, too many for {what} here.",
            cure="Use bash (sed, cat >>).",
        )
    return await sandbox.read(info.path)


def _appended(path: str, old: bytes, content: str) -> bytes:
    """The file with the text at its end.

    Raises:
        ToolError: the file holds the very same section already (a sign of doubled work).
    """
    before = decode(old)
    style = style_of(before)
    section = _bare(content).strip()
    if len(section) >= SAME_SECTION:
        plain = f"\n{_bare(before)}\n"
        at = plain.find(f"\n{section}\n")
        if at >= 0:
            raise ToolError(
                f"Not appended: {path} already holds this very section "
                f"(line {plain.count(chr(10), 0, at + 1)}).",
                cure="Go on with what is missing. To repeat it on purpose, use bash (cat >>).",
            )
    return old + encode(Style(crlf=style.crlf).dress(content))


def _doubled(text: str, old: str, new: str) -> str:
    """A note when what was put in beside `old` stands elsewhere in the file too."""
    if len(new) < SAME_SECTION:
        return ""
    before, _, after = _bare(new).partition(_bare(old).strip() or "\0")
    plain = _spaced(f"\n{_bare(text)}\n")
    for section in (before.strip(), after.strip()):
        whole = f"\n{_spaced(section)}\n"
        count = plain.count(whole) if len(section) >= SAME_SECTION else 0
        if count > 1:
            return f" Note: the section you put in now stands there {count} times."
    return ""


def _spaced(text: str) -> str:
    """Each line end twice, so that sections which follow each other do not share one."""
    return text.replace("\n", "\n\n")


def _bare(text: str) -> str:
    """Text without blanks at line ends."""
    return "\n".join(line.rstrip() for line in text.split("\n"))


def _read_now(path: str, data: bytes) -> dict[str, Any]:
    return {"files_read": {path: hashlib.sha256(data).hexdigest()}}


def _newly_read(runtime: Runtime, path: str, sha256: str | None) -> dict[str, Any]:
    """State update for a file that was read; none when the state says so already."""
    known: dict[str, str] = state_of(runtime).get("files_read") or {}
    return {} if sha256 is None or known.get(path) == sha256 else {"files_read": {path: sha256}}
