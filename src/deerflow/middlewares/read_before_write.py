"""Row 20: an existing file is changed only by one who has read its present version."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

from langchain.agents.middleware.types import ToolCallRequest

from deerflow.agent.context import RunContext
from deerflow.agent.hooks import Middleware, ToolNext, ToolResult
from deerflow.config.schema import ReadBeforeWriteConfig
from deerflow.errors import SandboxError
from deerflow.middlewares.results import refusal, update_of, with_update
from deerflow.sandbox.protocol import FileInfo
from deerflow.tools.place import located

CHANGING = frozenset({"write_file", "str_replace"})


@dataclass(slots=True)
class _Seen:
    """What this run read or wrote so far (parallel calls share no state yet), and who writes."""

    versions: dict[str, str] = field(default_factory=dict[str, str])
    locks: dict[str, asyncio.Lock] = field(default_factory=dict[str, asyncio.Lock])


class ReadBeforeWriteMiddleware(Middleware):
    """Refuses to overwrite or edit what the model has not seen.

    New and empty files are free, and so is appending.
    Tools report what they read and wrote as `files_read` (virtual path → sha256) in their state
    update. Writes to one file wait for each other, so that two edits in one turn both count.
    """

    def __init__(self, *, config: ReadBeforeWriteConfig) -> None:
        self._enabled = config.enabled

    async def tool(self, request: ToolCallRequest, next_: ToolNext, run: RunContext) -> ToolResult:
        """Check before a change; take note of what any tool read or wrote."""
        if not self._enabled:
            return await next_(request)
        seen: _Seen = run.scratch.setdefault(ReadBeforeWriteMiddleware, _Seen())
        if request.tool_call["name"] not in CHANGING:
            return _noted(await next_(request), seen)
        info = await _stat(request, run)
        if info is None:
            return _noted(await next_(request), seen)
        async with seen.locks.setdefault(info.path, asyncio.Lock()):
            return await self._change(request, next_, run, seen)

    async def _change(
        self, request: ToolCallRequest, next_: ToolNext, run: RunContext, seen: _Seen
    ) -> ToolResult:
        info = await _stat(request, run)
        if info is None or info.kind != "file" or info.size == 0:
            return _noted(await next_(request), seen)
        read = seen.versions.get(info.path) or _files_read(request).get(info.path)
        appends = _switched_on(request.tool_call["args"].get("append"))
        if read != info.sha256 and not appends:
            return refusal(request, _advice(info.path, read is not None))
        result = await next_(request)
        if appends and read != info.sha256:
            return _without(result, info.path)  # its old part is still unseen
        return _noted(result, seen)


def _advice(path: str, once: bool) -> str:
    if once:
        return (
            f"Error: {path} has changed since you read it (a command or someone else wrote it). "
            "Nothing was written. Read it again with read_file, then repeat the change on its "
            "present text."
        )
    return (
        f"Error: {path} exists and you have not read it. Nothing was written. Read it with "
        "read_file first, or write to a new name."
    )


async def _stat(request: ToolCallRequest, run: RunContext) -> FileInfo | None:
    """The file that a call changes, with its digest; None when new or no path of the tree."""
    path = request.tool_call["args"].get("path")
    if not isinstance(path, str) or not path:
        return None
    try:
        target = located(path, cast("Any", request).runtime)
        return await (await run.sandbox()).stat(target, digest=True)
    except SandboxError:
        return None


def _switched_on(value: Any) -> bool:
    """Whether the tool will read the value as true (weak models write it as text)."""
    return str(value).strip().lower() in ("true", "1", "t", "y", "yes", "on")


def _files_read(request: ToolCallRequest) -> dict[str, str]:
    return cast("dict[str, Any]", request.state).get("files_read") or {}


def _noted(result: ToolResult, seen: _Seen) -> ToolResult:
    seen.versions.update(update_of(result).get("files_read") or {})
    return result


def _without(result: ToolResult, path: str) -> ToolResult:
    """The result with a file taken out of what counts as read."""
    update = update_of(result)
    if path not in (update.get("files_read") or {}) or not hasattr(result, "update"):
        return result
    kept = {key: value for key, value in update["files_read"].items() if key != path}
    return with_update(cast("Any", result), {**update, "files_read": kept})
