"""Row 19: an audit entry before each sandbox operation: who, what, digest; never contents."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import orjson
from langchain.agents.middleware.types import ToolCallRequest

from deerflow.agent.context import RunContext
from deerflow.agent.hooks import Middleware, ToolNext, ToolResult
from deerflow.agent.journal import marks_of
from deerflow.middlewares.delimiters import one_line

_PATHS = ("path", "file_path", "filepath", "file")
_PROGRAM = re.compile(r"\s*([A-Za-z0-9_./+-]{1,60})(?=[\s;|&<>()]|$)")


class SandboxAuditMiddleware(Middleware):
    """Writes `audit` events for tools with the mark `sandbox`, before the effect."""

    async def tool(self, request: ToolCallRequest, next_: ToolNext, run: RunContext) -> ToolResult:
        """Write the entry, then go on."""
        if marks_of(request).get("sandbox"):
            call = request.tool_call
            run.emit(
                "audit",
                {
                    "user_id": run.user_id,
                    "agent": run.agent,
                    "tool_call_id": call["id"],
                    "tool": call["name"],
                    "target": _target(call["args"]),
                    "sha256": _digest(call["args"]),
                    "verdict": "allowed",  # whatever refuses a call stands further out
                },
            )
        return await next_(request)


def _target(args: dict[str, Any]) -> str:
    """The paths that a call names, or the program of its command: the rest may hold a secret."""
    for key in _PATHS:
        if isinstance(args.get(key), str):
            return one_line(args[key], 300)
    if isinstance(args.get("paths"), list):
        return one_line(", ".join(map(str, args["paths"])), 300)
    command = args.get("command")
    match = _PROGRAM.match(command) if isinstance(command, str) else None
    return match[1] if match else ""


def _digest(args: dict[str, Any]) -> str:
    """sha256 over the arguments as JSON with sorted keys."""
    try:
        data = orjson.dumps(args, default=repr, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # lone surrogates, integers beyond 64 bits
        data = repr(sorted(args.items())).encode("utf-8", "backslashreplace")
    return hashlib.sha256(data).hexdigest()
