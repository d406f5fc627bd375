"""The work of `deerflow memory`: reads and changes the memory of this machine's user."""

from __future__ import annotations

import asyncio
import datetime
import os
import secrets
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import orjson

from deerflow.cli import output
from deerflow.cli.exits import ANSWERED
from deerflow.cli.source import read
from deerflow.errors import NotFoundError, UsageError
from deerflow.memory.protocol import (
    RETIRED,
    Change,
    Fact,
    ImportReport,
    MemoryDocument,
    MemoryManager,
)
from deerflow.runtime.request import LOCAL_USER
from deerflow.wiring.memory import open_memory

T = TypeVar("T")

LAYERS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "user",
        (
            ("workContext", "Work"),
            ("personalContext", "Personal"),
            ("topOfMind", "On your mind"),
        ),
    ),
    (
        "history",
        (
            ("recentMonths", "Recent months"),
            ("earlierContext", "Earlier"),
            ("longTermBackground", "Long-term background"),
        ),
    ),
)

DAY = 86_400


def show_all(config: Path | None, *, past: bool, as_json: bool) -> int:
    """Print everything remembered, for people or as one JSON object.

    Raises:
        StorageError: the memory is damaged.
    """

    async def look(memory: MemoryManager) -> tuple[MemoryDocument, dict[str, Any], int]:
        document = await memory.load(LOCAL_USER)
        return document, await memory.export(LOCAL_USER), await memory.pending(LOCAL_USER)

    document, exported, waiting = _with_memory(config, look)
    if as_json:
        output.write_line(orjson.dumps({**exported, "waiting": waiting}))
        return ANSWERED
    lines = [*_summaries(document), *_facts(document, past=past)]
    for line in lines:
        output.say(line)
    if not lines:
        output.note("Nothing is remembered yet.")
    if waiting:
        output.note(f"{_many(waiting, 'exchange')} wait{'s' * (waiting == 1)} for extraction.")
    return ANSWERED


def show_found(config: Path | None, query: str, limit: int, *, as_json: bool) -> int:
    """Print facts that share words with a query."""
    found = _with_memory(config, lambda memory: memory.search(LOCAL_USER, query, limit=limit))
    for fact in found:
        if as_json:
            output.write_line(orjson.dumps(_record(fact)))
        else:
            for line in _lines(fact):
                output.say(line)
    if not found and not as_json:
        output.note("Nothing is remembered about that.")
    return ANSWERED


def forget_one(config: Path | None, ident: str) -> int:
    """Remove a fact.

    Raises:
        NotFoundError: no such fact.
        UsageError: several begin so.
    """

    async def forget(memory: MemoryManager) -> Fact:
        facts = (await memory.load(LOCAL_USER)).facts
        return await memory.forget(LOCAL_USER, _full_id(facts, ident))

    gone = _with_memory(config, forget)
    output.note(f"Forgotten: {gone.content}")
    output.note("`deerflow memory undo` brings it back.")
    return ANSWERED


def undo_one(config: Path | None) -> int:
    """Take the newest change back."""
    change: Change | None = _with_memory(config, lambda memory: memory.undo(LOCAL_USER))
    output.note("There is nothing to undo." if change is None else f"Taken back: {change.what}.")
    return ANSWERED


def export_to(config: Path | None, file: Path | None) -> int:
    """Write the memory to a file or to standard output.

    Raises:
        StorageError: the memory is damaged.
        OSError: the file cannot be written; a former one is left as it was.
    """
    raw = _with_memory(config, lambda memory: memory.export(LOCAL_USER))
    data = orjson.dumps(raw, option=orjson.OPT_INDENT_2)
    if file is None:
        output.write_line(data)
        return ANSWERED
    new = file.with_name(f"{file.name}.{secrets.token_hex(4)}.new")
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data + b"\n")
        new.replace(file)
    except OSError:
        new.unlink(missing_ok=True)
        raise
    output.note(f"Exported {_many(len(raw['facts']), 'fact')} to {file}.")
    return ANSWERED


def import_from(config: Path | None, file: Path) -> int:
    """Take another memory in.

    Raises:
        UsageError: there is no such file, or it holds no memory; nothing is changed.
    """
    data = _content(file)
    report: ImportReport = _with_memory(config, lambda memory: memory.take_in(LOCAL_USER, data))
    for line in report.left_out:
        output.note(f"Left out: {line}.")
    facts, summaries = _many(report.facts, "fact"), _many(report.summaries, "summary")
    known = not (report.facts or report.summaries or report.left_out)
    more = " Whatever it holds is remembered already." if known else ""
    output.note(f"Imported {facts} and {summaries}.{more}")
    return ANSWERED


def _content(file: Path) -> bytes:
    if str(file) == "-":
        return b"" if sys.stdin is None else sys.stdin.buffer.read()  # pyright: ignore[reportUnnecessaryComparison]  # closed
    try:
        return file.read_bytes()
    except OSError as error:
        reason = error.strerror or "it cannot be read"
        raise UsageError(f"{file} cannot be imported ({reason}).", cure="Name a file.") from error


def _with_memory(config: Path | None, work: Callable[[MemoryManager], Awaitable[T]]) -> T:
    async def opened() -> T:
        async with open_memory(loaded) as memory:
            return await work(memory)

    loaded, _ = read(config)
    return asyncio.run(opened())


def _full_id(facts: tuple[Fact, ...], ident: str) -> str:
    hits = [fact.id for fact in facts if fact.id.startswith(ident)]
    if ident in hits or len(hits) == 1:
        return ident if ident in hits else hits[0]
    if not hits or not ident:
        raise NotFoundError(
            f"There is no fact {ident!r}.", cure="`deerflow memory show --all` lists them."
        )
    raise UsageError(f"{len(hits)} facts begin with {ident!r}.", cure="Give more of the id.")


def _summaries(document: MemoryDocument) -> Iterator[str]:
    for layer, names in LAYERS:
        for name, label in names:
            summary = getattr(document, layer).get(name)
            if summary is not None and summary.text:
                yield f"{label} ({_day(summary.updated_at)})"
                yield f"  {output.one_line(summary.text)}"


def _facts(document: MemoryDocument, *, past: bool) -> Iterator[str]:
    current = document.current
    shown = document.facts if past else current
    if shown:
        older = len(document.facts) - len(current)
        more = f", {older} in the history" if older else ""
        yield f"{_many(len(current), 'fact')}{more}"
    for fact in shown:
        yield from (f"  {line}" for line in _lines(fact))


def _lines(fact: Fact) -> list[str]:
    """A fact on two lines: what is known about it, and what it says."""
    origin = f"thread {fact.source.thread}" if fact.source.thread else "by hand"
    parts = [fact.id, fact.category, f"{fact.confidence:.2f}", f"{origin}, {_day(fact.created_at)}"]
    if _day(fact.last_confirmed) != _day(fact.created_at):
        parts.append(f"confirmed {_day(fact.last_confirmed)}")
    if fact.superseded_by:
        parts.append("history" if fact.superseded_by == RETIRED else f"→ {fact.superseded_by}")
    elif fact.valid_days is not None:
        end = fact.last_confirmed + fact.valid_days * DAY
        parts.append(f"{'held' if time.time() > end else 'holds'} until {_day(end)}")
    return [output.one_line("  ".join(parts)), f"  {output.one_line(fact.content)}"]


def _record(fact: Fact) -> dict[str, Any]:
    return {
        "id": fact.id,
        "content": fact.content,
        "category": fact.category,
        "confidence": fact.confidence,
        "thread": fact.source.thread,
        "message": fact.source.message,
        "created_at": _time(fact.created_at),
        "last_confirmed": _time(fact.last_confirmed),
        "valid_days": fact.valid_days,
    }


def _many(number: int, thing: str) -> str:
    plural = f"{thing[:-1]}ies" if thing.endswith("y") else f"{thing}s"
    return f"{number} {thing if number == 1 else plural}"


def _moment(seconds: float) -> datetime.datetime:
    last = datetime.datetime(9999, 12, 30, tzinfo=datetime.UTC)
    return datetime.datetime.fromtimestamp(min(seconds, last.timestamp()), datetime.UTC)


def _day(seconds: float) -> str:
    return f"{_moment(seconds).astimezone():%Y-%m-%d}" if seconds else "no date"


def _time(seconds: float) -> str:
    return _moment(seconds).isoformat(timespec="seconds").replace("+00:00", "Z")
