"""What items of a batch came to: the record of each, the file of all, the text for the lead."""

from __future__ import annotations

import asyncio
import posixpath
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from deerflow.agent.context import RunContext
from deerflow.models.usage import UsageMeter
from deerflow.sandbox.protocol import WORKSPACE
from deerflow.storage.protocol import BatchItem, BatchRow, ItemStatus
from deerflow.subagents.batch_items import brief, loaded
from deerflow.subagents.runner import ChildResult

FOLDER = f"{WORKSPACE}/batches"
PAGE = 1_000
"""Items read at a time."""
SHOWN_FAILURES = 5
"""Failed items that the lead is told of."""

Counts = dict[ItemStatus, int]


@dataclass(frozen=True, slots=True)
class Record:
    """The column `result` of an item, also of one that is not finished.

    Attributes:
        text: the child's last answer, or what it had.
        stop_reason: rule that stopped the child, "" when it finished by itself.
        turns: model turns of the last attempt.
        usage: of the last attempt, which repeats what it replays of earlier ones.
        error: {code, message, cure} or None.
        failures: attempts that failed.
        ended: claims whose end is known (failed, waiting, stopped); the others ended with the
            process.
    """

    text: str = ""
    stop_reason: str = ""
    turns: int = 0
    usage: dict[str, Any] = field(default_factory=dict[str, Any])
    error: dict[str, Any] | None = None
    failures: int = 0
    ended: int = 0

    @classmethod
    def of(cls, item: BatchItem) -> Record:
        """The record of an item, an empty one when it has none."""
        return cls(**orjson.loads(item.result)) if item.result else cls()

    def dumped(self) -> str:
        """As it is stored."""
        return orjson.dumps(self, default=str).decode()

    def lost(self, item: BatchItem) -> int:
        """Earlier claims of a claimed item that ended with the process."""
        return item.attempts - 1 - self.ended

    def returned(self) -> Record:
        """After a claim that came back without a result."""
        return replace(self, ended=self.ended + 1)

    def after(self, child: ChildResult, usage: dict[str, Any]) -> Record:
        """After a claim that ended as the child did, which has used so much."""
        return Record(
            text=child.text,
            stop_reason=child.stop_reason,
            turns=child.turns,
            usage=usage,
            error=child.error,
            failures=self.failures + (child.status != "completed"),
            ended=self.ended + 1,
        )


def file_name(source: str, batch_id: str) -> str:
    """Name of a batch's results: that of its source, and what tells two of them apart."""
    stem = posixpath.splitext(posixpath.basename(source))[0]
    safe = re.sub(r"[^\w-]+", "_", stem, flags=re.ASCII).strip("_")[:40]
    return f"{safe or 'batch'}-{batch_id[:8]}"


async def write_results(run: RunContext, row: BatchRow, path: str) -> None:
    """Write the file, one line per item in input order, whole or not at all.

    Raises:
        SandboxError: the disk or a limit refuses it.
    """
    data = bytearray()
    await run.storage.flush()
    async for page in pages(run, row):
        data += await asyncio.to_thread(_lines, page)
    await (await run.sandbox()).write(path, bytes(data))


async def review(run: RunContext, row: BatchRow) -> tuple[list[str], UsageMeter]:
    """A line for each of the first failed items, and what all items together have used."""
    lines: list[str] = []
    meter = UsageMeter()
    async for page in pages(run, row):
        for item in page:
            record = Record.of(item)
            meter.merge(UsageMeter.from_dict(record.usage))
            if item.status == "failed" and len(lines) < SHOWN_FAILURES:
                shown, reason = brief(loaded(item.item), 40), (record.error or {}).get("message")
                lines.append(f"- item {item.index} ({shown}): {brief(str(reason), 90)}")
    return lines, meter


def summary(counts: Counts, total: int, path: str, failures: Sequence[str]) -> str:
    """What the lead reads: about 1 kB at most, however many items there were."""
    done, failed = counts.get("done", 0), counts.get("failed", 0)
    lines = [
        f"{total:,} items: {done:,} done, {failed:,} failed. Results in input order, one JSON line "
        f"per item (index from 0, item, status, result, error): {path}"
    ]
    if failures:
        more = failed - len(failures)
        lines += ["Failed:", *failures, *([f"- and {more:,} more"] if more else [])]
    return "\n".join(lines)


async def pages(run: RunContext, row: BatchRow) -> AsyncIterator[list[BatchItem]]:
    """All items in order."""
    after = -1
    while page := await run.storage.batches.items(row.batch_id, after=after, limit=PAGE):
        yield page
        after = page[-1].index


def _lines(page: Sequence[BatchItem]) -> bytes:
    return b"".join(orjson.dumps(_line(item), option=orjson.OPT_APPEND_NEWLINE) for item in page)


def _line(item: BatchItem) -> dict[str, Any]:
    record = Record.of(item)
    ended = item.status in ("done", "failed")
    error = record.error
    if item.status == "done" and record.stop_reason:
        error = {"code": "stopped", "message": f"Stopped by {record.stop_reason}: not finished."}
    return {
        "index": item.index,
        "item": orjson.Fragment(item.item),
        "status": "pending" if item.status == "running" else item.status,
        "result": record.text if ended else None,
        "error": error if ended else None,
    }
