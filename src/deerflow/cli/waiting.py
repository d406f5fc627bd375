"""What waits for the person at the terminal: questions with their forms, calls to be approved."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, cast

import orjson

from deerflow.cli import output
from deerflow.guardrails.approvals import LEAST_PREFIX

_SHORTEST = max(8, LEAST_PREFIX)
_ARGS = 2_000
"""Characters of arguments that are printed; `deerflow approvals list --json` has all."""

_THEN = {"allow": ", then it is allowed", "deny": ", then it is denied"}
"""What the default means; the end of a run does not know it, `deerflow approvals list` does."""


def question_lines(question: dict[str, Any]) -> list[str]:
    """A question with its choices, or with the fields of its form."""
    lines: list[str] = []
    for index, option in enumerate(_list(question.get("options")), 1):
        lines.append(f"  {index}. {option}")
    for field in _list(question.get("fields")):
        if isinstance(field, dict):
            lines.append(_field_line(cast("dict[str, Any]", field)))
    return lines


def _field_line(field: dict[str, Any]) -> str:
    kind = str(field.get("type") or "text")
    choices = ", ".join(map(str, _list(field.get("options"))))
    details = [f"{kind}: {choices}" if choices else kind]
    if field.get("required"):
        details.append("required")
    return f"  {field.get('label') or field.get('name')} ({'; '.join(details)}):"


def approval_lines(waiting: Sequence[dict[str, Any]]) -> list[str]:
    """What stands below the answer of a run that waits for approval."""
    if not waiting:
        return ["It waits for a decision that another part of the system asked for."]
    count = len(waiting)
    lines = ["Waiting for your approval:" if count == 1 else f"{count} calls wait for approval:"]
    for call in waiting:
        lines += waiting_lines(call)
    ident = waiting[0]["approval_id"][:_SHORTEST]
    lines.append(f"Decide with: deerflow approvals approve {ident}")
    lines.append(f"         or: deerflow approvals reject {ident} --reason TEXT")
    return lines


def waiting_lines(call: dict[str, Any]) -> list[str]:
    """A call that waits: its id, what it would do, and why it is asked."""
    args = output.one_line(orjson.dumps(call["args"], default=str).decode())
    if len(args) > _ARGS:
        more = len(args) - _ARGS
        args = f"{args[:_ARGS]}… ({more} characters more, see approvals list --json)"
    lines = [f"  {call['approval_id'][:_SHORTEST]}  {output.one_line(call['tool'])} {args}"]
    details = [output.one_line(str(call.get("reason") or ""))]
    if call.get("agent") != "lead":
        details.append(f"asked by {output.one_line(str(call.get('agent')))}")
    if call.get("expires_at"):
        details.append(
            f"until {local_time(call['expires_at'])}{_THEN.get(str(call.get('default')), '')}"
        )
    said = "; ".join(filter(None, details))
    return [*lines, f"    {said}"] if said else lines


def local_time(seconds: float) -> str:
    """A moment in the zone of this machine."""
    when = datetime.datetime.fromtimestamp(seconds, datetime.UTC).astimezone()
    return f"{when:%Y-%m-%d %H:%M:%S %Z}"


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
