"""Decisions over calls that wait for a human: one set of rules for terminal, library and HTTP.

The row in the store is the only truth. No process has to be alive for a decision or an expiry:
whoever looks next carries it out.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import orjson

from deerflow.errors import NotFoundError, UsageError
from deerflow.storage.protocol import ApprovalRow, Approvals, CallKey, Decision, Storage

NOTE_LIMIT = 2_000
"""Characters of a reason."""
ARGS_LIMIT = 1_048_576
"""Bytes of edited arguments as JSON."""
SHOWN = 4_000
"""Characters of one text inside arguments that events and outcomes repeat; the row has all."""
MOST = 10_000
"""Approvals of a user that are looked through for a prefix or listed."""
LEAST_PREFIX = 4
"""Characters of an id that a person must type."""

SUPERSEDED = "Not approved: superseded by a new message."
SUPERSEDED_CHILD = (
    "Not finished: a call inside it waited for approval and was superseded by a new message."
)
_WITHOUT = "Go on without it; do not try to reach the same another way."


def approval_id(key: CallKey) -> str:
    """The id that a call's place decides, so that asking twice is asking once."""
    parts = (key.thread_key, key.run_id, key.namespace, key.message_id, str(key.index))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def allows(row: ApprovalRow) -> bool:
    """Whether the call may run as the row stands."""
    return row.status == "approved" or (row.status == "expired" and row.default == "allow")


def refusal_text(row: ApprovalRow) -> str:
    """What the model is told of a call that may not run."""
    if row.status == "rejected":
        return f"Not approved: {row.note.rstrip('. ') or 'the user said no'}. {_WITHOUT}"
    if row.status == "expired":
        seconds = (row.expires_at or row.created_at) - row.created_at
        return f"Not approved within {round(seconds, 3):g} seconds. {_WITHOUT}"
    return SUPERSEDED


def waiting(row: ApprovalRow) -> dict[str, Any]:
    """A pending call as outcomes and interrupts name it."""
    return {
        "approval_id": row.approval_id,
        "tool": row.tool,
        "args": shown(row.args),
        "reason": row.reason,
        "agent": row.namespace or "lead",
        "expires_at": row.expires_at,
        "default": row.default,
    }


def decided(row: ApprovalRow) -> dict[str, Any]:
    """Fields of the event `approval_decided`."""
    return {
        "approval_id": row.approval_id,
        "tool": row.tool,
        "status": row.status,
        "by": row.decided_by,
        "note": row.note,
        "edited": None if row.edited is None else shown(row.edited),
    }


def shown(value: Any) -> Any:
    """A copy in which each long text is cut, and says so."""
    if isinstance(value, str):
        if len(value) <= SHOWN:
            return value
        return f"{value[:SHOWN]}… ({len(value)} characters in all)"
    if isinstance(value, dict):
        return {key: shown(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [shown(item) for item in cast("list[Any]", value)]
    return value


@dataclass(frozen=True, slots=True)
class Decided:
    """What became of a decision.

    Attributes:
        row: the approval as it stands now.
        counts: whether this very decision is the one that counts; if not, nothing was changed.
    """

    row: ApprovalRow
    counts: bool

    @property
    def text(self) -> str:
        """One line for the person who decided."""
        row = self.row
        what = f"{row.tool} ({row.approval_id[:8]})"
        if self.counts:
            return f"{what} is {row.status}."
        if row.status == "superseded":
            return f"{what} is superseded by a new message; nothing was changed."
        if row.status == "expired":
            return f"{what} has expired, which means {row.default}; nothing was changed."
        return f"{what} was {row.status} already by {row.decided_by}; nothing was changed."


async def decide(storage: Storage, user_id: str, ident: str, decision: Decision) -> Decided:
    """Record a decision over a pending approval; the first one counts, expiry before any.

    Args:
        storage: the stores; the event `approval_decided` is durable when this returns.
        user_id: who decides.
        ident: the approval's whole id.
        decision: approved or rejected, with the time as its `at`.

    Raises:
        UsageError: edited arguments or reason that cannot be taken.
        NotFoundError: no such approval, or someone else's.
    """
    _check(decision)
    row = await storage.approvals.get(user_id, ident)
    if row is None:
        raise no_approval(ident)
    await expire(storage, decision.at, row.thread_key)
    row, counts = await storage.approvals.decide(user_id, ident, decision)
    if counts:
        await announce(storage, [row])
    return Decided(row, counts)


async def expire(storage: Storage, now: float, thread_key: str | None = None) -> list[ApprovalRow]:
    """Carry out what has expired, of one thread or of all; returns those rows."""
    rows = await storage.approvals.expire(now, thread_key=thread_key)
    await announce(storage, rows)
    return rows


async def supersede(storage: Storage, now: float, thread_key: str) -> list[ApprovalRow]:
    """Close what waits in a thread that has a new message; returns the superseded rows."""
    await expire(storage, now, thread_key)
    rows = await storage.approvals.supersede(thread_key, at=now)
    await announce(storage, rows)
    return rows


async def decided_meanwhile(
    storage: Storage, user_id: str, thread_key: str, pauses: Sequence[Any]
) -> bool:
    """Whether one of these pauses has been decided, or has expired, since it was asked.

    Args:
        storage: the stores.
        user_id: owner of the thread.
        thread_key: internal thread id.
        pauses: values of interrupts; those of others count as undecided.
    """
    fields = [cast("dict[str, Any]", pause) for pause in pauses if isinstance(pause, dict)]
    asked = {pause.get("approval_id") for pause in fields} - {None}
    if not asked:
        return False
    await expire(storage, time.time(), thread_key)
    rows = await storage.approvals.list(user_id, thread_key=thread_key, limit=MOST)
    return not asked <= {row.approval_id for row in rows}


async def announce(storage: Storage, rows: Sequence[ApprovalRow]) -> None:
    """Write the event of each decided row into its thread's log."""
    written = None
    for row in rows:
        payload = decided(row)
        if row.namespace:
            payload = {"task_id": row.namespace, **payload}
        written = storage.events.append(row.thread_key, row.run_id, "approval_decided", payload)
    if written is not None:
        await written


async def find(approvals: Approvals, user_id: str, prefix: str) -> ApprovalRow:
    """The one approval of a user whose id begins so; pending ones come first.

    Raises:
        NotFoundError: there is none, or it is someone else's.
        UsageError: too short, or it fits several.
    """
    exact = await approvals.get(user_id, prefix)
    if exact is not None:
        return exact
    if len(prefix) < LEAST_PREFIX:
        raise UsageError(
            f"{prefix!r} is too short for an id.",
            cure=f"Give at least {LEAST_PREFIX} characters of it.",
        )
    for status in ("pending", None):
        rows = await approvals.list(user_id, status=status, limit=MOST)
        found = [row for row in rows if row.approval_id.startswith(prefix)]
        if len(found) > 1:
            raise UsageError(
                f"{prefix!r} fits {len(found)} approvals.", cure="Give more of the id."
            )
        if found:
            return found[0]
    raise no_approval(prefix)


def no_approval(ident: str) -> NotFoundError:
    """The one way to say that an approval does not exist or is someone else's."""
    return NotFoundError(
        f"There is no approval {ident!r} here.",
        cure="`deerflow approvals list` shows what waits.",
    )


def read_args(text: str) -> dict[str, Any]:
    """Edited arguments as a person typed them.

    Raises:
        UsageError: no JSON object.
    """
    try:
        value: Any = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise UsageError(f"The arguments are no JSON: {error}.", cure=_EXAMPLE) from None
    if not isinstance(value, dict):
        raise UsageError("The arguments are no JSON object.", cure=_EXAMPLE)
    return cast("dict[str, Any]", value)


_EXAMPLE = 'Write all arguments of the call, like {"path": "notes.md"}.'


def answer_of(value: Any, at: float) -> Decision:
    """The decision in a value that a foreign runner resumed the interrupt with.

    True, or {"approved": true, "args": {…}?}, approves; {"approved": false, "reason": "…"?}
    and everything else rejects.
    """
    given = cast("dict[str, Any]", value) if isinstance(value, dict) else {"approved": value}
    if given.get("approved") is not True:
        return Decision("rejected", "runner", at, note=str(given.get("reason") or "")[:NOTE_LIMIT])
    args = given.get("args")
    edited = cast("dict[str, Any]", args) if isinstance(args, dict) else None
    return Decision("approved", "runner", at, edited)


def _check(decision: Decision) -> None:
    if decision.status not in ("approved", "rejected"):
        raise UsageError("An approval is approved or rejected.")
    if len(decision.note) > NOTE_LIMIT:
        raise UsageError(
            f"The reason has {len(decision.note)} characters, at most {NOTE_LIMIT} are taken.",
            cure="Say it shorter.",
        )
    if decision.edited is None:
        return
    if decision.status != "approved":
        raise UsageError("A rejected call has no new arguments.", cure="Approve it with them.")
    given: Any = decision.edited
    if not isinstance(given, dict):
        raise UsageError("The arguments are no JSON object.", cure=_EXAMPLE)
    try:
        json.dumps(given, allow_nan=False)  # orjson would write null in the place of NaN
        size = len(orjson.dumps(given))
    except (ValueError, TypeError, RecursionError) as error:
        raise UsageError(f"The arguments are no JSON object: {error}.", cure=_EXAMPLE) from None
    if size > ARGS_LIMIT:
        raise UsageError(f"The arguments have {size} bytes, at most {ARGS_LIMIT} are taken.")
