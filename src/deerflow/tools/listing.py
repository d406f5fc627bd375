"""`ls`, `glob` and `grep`: what is there, in few characters."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

from langchain_core.tools import BaseTool
from pydantic import BaseModel

from deerflow.errors import ToolError
from deerflow.sandbox.protocol import WORKSPACE, FileInfo
from deerflow.tools.limits import ToolLimits
from deerflow.tools.place import located
from deerflow.tools.protocol import ToolMarks
from deerflow.tools.schema import Number, Runtime, Text, make_tool, optional

ENTRIES = 1000
"""Entries of a listing."""
FILES = 500
"""Files of a glob."""
HITS = 200
"""Lines of a grep."""
_DEPTH = 8
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_MARKS: ToolMarks = {"idempotent": True, "sandbox": True}


class LsArgs(BaseModel):
    """Arguments of ls."""

    path: Text = optional(str)
    depth: Number = optional()


class GlobArgs(BaseModel):
    """Arguments of glob."""

    pattern: str
    path: Text = optional(str)


class GrepArgs(BaseModel):
    """Arguments of grep."""

    pattern: str
    path: Text = optional(str)
    include: Text = optional(str)


def listing_tools(limits: ToolLimits) -> list[BaseTool]:
    """The three tools, showing at most `limits.list_chars` characters."""

    async def ls(runtime: Runtime, path: str = "", depth: int | None = None) -> str:
        sandbox = await runtime.context.sandbox()
        target = located(path, runtime)
        info = await sandbox.stat(target)
        if info is None:
            raise ToolError(f"{path} does not exist.", cure="List the folder above it.")
        if info.kind != "dir":
            return f"{info.path}: a file of {info.size:,} bytes"
        levels = max(1, min(depth or 1, _DEPTH))
        entries = await sandbox.listdir(target, depth=levels, limit=ENTRIES + 1)
        if not entries:
            return f"{info.path} is empty."
        lines = [_entry(entry, info.path) for entry in entries]
        return _bounded(f"{info.path}:", lines, ENTRIES, limits.list_chars)

    async def glob(pattern: str, runtime: Runtime, path: str = "") -> str:
        sandbox = await runtime.context.sandbox()
        found = await sandbox.glob(pattern, path=located(path, runtime), limit=FILES + 1)
        if not found:
            wider = "" if "**" in pattern else f" Try **/{posixpath.basename(pattern)}."
            return f"No file matches {pattern!r} there.{wider}"
        return _bounded("", list(map(_one_line, found)), FILES, limits.list_chars)

    async def grep(pattern: str, runtime: Runtime, path: str = "", include: str = "") -> str:
        sandbox = await runtime.context.sandbox()
        hits = await sandbox.grep(
            pattern, path=located(path, runtime), include=include, limit=HITS + 1
        )
        if not hits:
            return f"No line matches {pattern!r} there."
        lines: list[str] = []
        last = ""
        for number, hit in enumerate(hits):
            head = f"{_one_line(hit.path)}\n" if hit.path != last or number == 0 else ""
            last = hit.path
            lines.append(f"{head}  {hit.line}: {_one_line(hit.text)}")
        return _bounded("", lines, HITS, limits.list_chars)

    return [
        make_tool("ls", f"List a folder (default {WORKSPACE}).", LsArgs, ls, _MARKS),
        make_tool(
            "glob",
            "Find files by pattern, newest first; ** crosses folders.",
            GlobArgs,
            glob,
            _MARKS,
        ),
        make_tool(
            "grep",
            "Find lines by regular expression; include filters names (*.py).",
            GrepArgs,
            grep,
            _MARKS,
        ),
    ]


def _one_line(text: str) -> str:
    """Text whose control characters (a file name may hold a line break) cannot pose as lines."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def _entry(info: FileInfo, base: str) -> str:
    name = _one_line(posixpath.relpath(info.path, base))
    if info.kind == "dir":
        return f"{name}/"
    return f"{name} (link)" if info.kind == "link" else f"{name}  {info.size:,}"


def _bounded(head: str, lines: list[str], count: int, chars: int) -> str:
    """Lines within both limits; what is left out is said."""
    kept = list(_within(lines[:count], chars - len(head)))
    if len(kept) < len(lines):
        more = "more" if len(lines) > count else f"{len(lines) - len(kept)} more"
        kept.append(f"[{more} left out: name a narrower path or pattern]")
    return "\n".join([head, *kept] if head else kept)


def _within(lines: Iterable[str], chars: int) -> Iterable[str]:
    for line in lines:
        chars -= len(line) + 1
        if chars < 0:
            return
        yield line
