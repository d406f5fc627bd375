"""Decisions from the terminal: what waits, what was decided, and the run that goes on with it."""

from __future__ import annotations

import asyncio
import shlex
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson

from deerflow.cli import output
from deerflow.cli.exits import ANSWERED, FAILED
from deerflow.cli.run import RunOptions, run
from deerflow.cli.source import read
from deerflow.cli.waiting import local_time, waiting_lines
from deerflow.config.load import LoadedConfig
from deerflow.errors import ConflictError, UsageError
from deerflow.guardrails import approvals
from deerflow.guardrails.approvals import Decided
from deerflow.runtime.request import LOCAL_USER, RunRequest
from deerflow.storage.protocol import ApprovalRow, Decision
from deerflow.wiring.stores import has_stores, open_stores


@dataclass(frozen=True, slots=True)
class Choice:
    """What the person at the terminal chose.

    Attributes:
        status: approved or rejected.
        args: JSON text that replaces the arguments, None to leave them.
        reason: of a rejection.
    """

    status: Literal["approved", "rejected"]
    args: str | None = None
    reason: str = ""


def show_list(config: Path | None, *, everything: bool, as_json: bool) -> int:
    """Print calls that wait, or all that were ever asked for."""
    loaded, _ = read(config)
    rows = asyncio.run(_rows(loaded, everything))
    if as_json:
        for row in rows:
            output.write_line(orjson.dumps(record(row)))
        return ANSWERED
    if not rows:
        output.note("Nothing waits for you." if not everything else "No approvals yet.")
    for row in rows:
        for line in _lines(row):
            output.say(line)
    return ANSWERED


def decide_one(ident: str, choice: Choice, config: Path | None, *, go_on: bool) -> int:
    """Record a decision, then go on with the run; its exit code.

    Raises:
        UsageError: an id that fits several, or arguments or a reason that cannot be taken.
        NotFoundError: no such approval.
    """
    edited = None if choice.args is None else approvals.read_args(choice.args)
    loaded, _ = read(config)
    made = asyncio.run(_decide(loaded, ident, choice, edited))
    output.note(made.text)
    thread = made.row.thread_id
    again = f"deerflow run --thread {shlex.quote(thread)} --resume"
    if not made.counts:
        same = made.row.status == choice.status and choice.args is None
        if same:
            output.note(f"Should its run have stopped: {again}")
        return ANSWERED if same else FAILED
    if not go_on:
        output.note(f"Go on with: {again}")
        return ANSWERED
    try:
        return run(RunOptions(RunRequest(thread_id=thread, resume=True), config))
    except ConflictError:
        output.note(f"Its run is under way elsewhere and takes it up. If it ends first: {again}")
        return ANSWERED


async def _rows(loaded: LoadedConfig, everything: bool) -> list[ApprovalRow]:
    if not has_stores(loaded):
        return []
    async with open_stores(loaded) as storage:
        await approvals.expire(storage, time.time())
        status = None if everything else "pending"
        return await storage.approvals.list(LOCAL_USER, status=status, limit=approvals.MOST)


async def _decide(
    loaded: LoadedConfig, ident: str, choice: Choice, edited: dict[str, Any] | None
) -> Decided:
    text = output.text_of(choice.reason)
    if text is None or output.text_of(ident) is None:
        raise UsageError(f"{'--reason' if text is None else 'ID'} is not UTF-8 text.")
    if not has_stores(loaded):
        raise approvals.no_approval(ident)
    async with open_stores(loaded) as storage:
        row = await approvals.find(storage.approvals, LOCAL_USER, ident)
        decision = Decision(choice.status, LOCAL_USER, time.time(), edited, text)
        return await approvals.decide(storage, LOCAL_USER, row.approval_id, decision)


def record(row: ApprovalRow) -> dict[str, Any]:
    """An approval as `--json` prints it: arguments whole, times in UTC seconds."""
    return {
        "approval_id": row.approval_id,
        "thread_id": row.thread_id,
        "run_id": row.run_id,
        "agent": row.namespace or "lead",
        "tool": row.tool,
        "args": row.args,
        "reason": row.reason,
        "default": row.default,
        "created_at": row.created_at,
        "expires_at": row.expires_at,
        "status": row.status,
        "decided_at": row.decided_at,
        "decided_by": row.decided_by,
        "edited": row.edited,
        "note": row.note,
    }


def _lines(row: ApprovalRow) -> list[str]:
    lines = waiting_lines({**approvals.waiting(row), "default": row.default})
    lines.append(f"    thread {output.one_line(row.thread_id)}, asked {local_time(row.created_at)}")
    if row.status != "pending":
        note = f": {output.one_line(row.note)}" if row.note else ""
        when = local_time(row.decided_at or row.created_at)
        lines.append(f"    {row.status} by {row.decided_by}, {when}{note}")
    return lines
