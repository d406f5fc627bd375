"""Row 23, an edge: exceptions of tools become error results that say how to go on."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any, cast

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.tools import ToolException
from langgraph.errors import GraphBubbleUp, is_invalid_resume
from langgraph.prebuilt.tool_node import ToolInvocationError
from pydantic import ValidationError

from deerflow.agent.context import RunContext
from deerflow.agent.hooks import Middleware, ToolNext, ToolResult
from deerflow.errors import DeerFlowError, ThreadGoneError
from deerflow.middlewares.results import refusal
from deerflow.sandbox.paths import hide_host_paths

_log = logging.getLogger(__name__)

_LONGEST = 600
_SECRETS = re.compile(
    r"""(?ix)
    ((?:api[-_]?key|access[-_]?key|token|secret|password|passwd|authorization|cookie)
        ["']?\s*[=:]\s*["']?(?:bearer\s+|basic\s+)?)[^\s"'&,;]+
    | ()\b(?:sk|pk|ghp|gho|xox[abp])[-_][A-Za-z0-9_-]{12,}
    | (\b[a-z][a-z0-9+.-]*://)[^\s/@]+@
    """
)
_HOST_PATH = re.compile(
    r"(?<![\w./:-])/(?:home|root|usr|opt|var|tmp|etc|srv|private|Users|proc|run|app)/"
    r"[^\s'\":,;)\]}]+"
)


class ToolErrorHandlingMiddleware(Middleware):
    """Lets through interrupts, cancellation, and what ends the run for good (a deleted thread).

    Args:
        seconds: limit for any one call, None for none; tools that run commands have their own.
    """

    def __init__(self, *, seconds: float | None = None) -> None:
        self._seconds = seconds

    async def tool(self, request: ToolCallRequest, next_: ToolNext, run: RunContext) -> ToolResult:
        """Run the call; answer a failure."""
        try:
            async with asyncio.timeout(self._seconds):
                return await next_(request)
        except (GraphBubbleUp, ThreadGoneError):
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return refusal(request, f"Error: {_ended(request)}")  # the tool's own task, not ours
        except SystemExit:  # a program's main() used as a tool: it must not end the server
            return refusal(request, f"Error: {_ended(request)}")
        except Exception as error:
            if is_invalid_resume(error):
                raise  # the answer to an interrupt did not fit; the model cannot cure that
            return refusal(request, f"Error: {explained(error, request, run)}")


def _ended(request: ToolCallRequest) -> str:
    name = request.tool_call["name"]
    return f"{name} ended itself without a result. Change the arguments or take another way."


def explained(error: Exception, request: ToolCallRequest, run: RunContext) -> str:
    """What the model is told: what went wrong and how to go on; no host path, no secret."""
    name = request.tool_call["name"]
    if isinstance(error, DeerFlowError):
        return hide_host_paths(str(error), run.folders)
    if isinstance(error, ToolInvocationError):
        error = error.source
    if isinstance(error, ValidationError):
        return _arguments(error, request)
    _log.warning("tool %s failed", name, exc_info=error)
    if isinstance(error, TimeoutError):
        return f"{name} took too long and was stopped. Ask for less at a time, or go on without it."
    said = safe(str(error), run)
    what = said if isinstance(error, ToolException) and said else f"{type(error).__name__}: {said}"
    return (
        f"{name} failed: {what.rstrip(':. ')}. Change the arguments or take another way; "
        "do not repeat the same call."
    )


def safe(text: str, run: RunContext) -> str:
    """A stranger's error text: host paths and secrets removed, cut at 600 characters."""
    text = hide_host_paths(text, run.folders)
    text = _HOST_PATH.sub("(a path of the server)", text)
    text = _SECRETS.sub(
        lambda match: (match[1] or match[3] or "") + "***" + ("@" if match[3] else ""), text
    )
    text = text.strip()
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def _arguments(error: ValidationError, request: ToolCallRequest) -> str:
    """Which argument is wrong and what the tool expects."""
    lines: list[str] = []
    for problem in error.errors(include_url=False, include_context=False)[:5]:
        where = ".".join(str(step) for step in problem["loc"]) or "arguments"
        given = "" if problem["type"] == "missing" else f" (given: {_shortly(problem['input'])})"
        lines.append(f"`{where}`: {problem['msg']}{given}")
    expected = _expected(request)
    cure = f" Expected: {expected}." if expected else ""
    return f"the arguments of {request.tool_call['name']} do not fit. {'; '.join(lines)}.{cure}"


def _shortly(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + "…"


def _expected(request: ToolCallRequest) -> str:
    """Names and types of the tool's arguments, as its schema gives them."""
    if request.tool is None:
        return ""
    schema = cast("Any", request.tool.tool_call_schema)
    shape = cast(
        "dict[str, Any]", schema if isinstance(schema, dict) else schema.model_json_schema()
    )
    needed = set(shape.get("required", ()))
    names: list[str] = []
    for key, field in cast("dict[str, dict[str, Any]]", shape.get("properties", {})).items():
        kind = field.get("type") or "/".join(
            str(option.get("type", "object")) for option in field.get("anyOf", ())
        )
        names.append(f"{key} ({kind or 'object'}{', required' if key in needed else ''})")
    return ", ".join(names)
