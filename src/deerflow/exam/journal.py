"""The journal of an exam: one JSON line per finished step, from which an exam goes on."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import orjson

from deerflow.errors import StorageError, UsageError
from deerflow.models.usage import Tokens
from deerflow.verify.messages import CheckOutcome, Problem, QuestionStatus
from deerflow.verify.protocol import Ask, Asker, Checker, Reply

StepKey = tuple[Any, ...]
"""Question, repeat, role or "check", step, attempt, number, digest of what was asked."""


def digest(*parts: str) -> str:
    """SHA-256 of texts, each with its length, as hex."""
    found = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        found.update(len(data).to_bytes(8, "big") + data)
    return found.hexdigest()


def config_hash(config: dict[str, Any]) -> str:
    """What must be equal for an exam to go on: SHA-256 of the settings as sorted JSON."""
    return hashlib.sha256(orjson.dumps(config, option=orjson.OPT_SORT_KEYS)).hexdigest()


class Journal:
    """An append-only file of events; each is whole in the file before the next step begins.

    A line is `{"n", "type", …}`; types are started, reply, check, status and finished. What a
    kill tore off the last line is cut away when the journal is opened again.

    Args:
        path: the file.
        events: what it holds.
        descriptor: open for appending.
        noted: called with the number of events after each that was written.
    """

    def __init__(
        self,
        path: Path,
        events: list[dict[str, Any]],
        descriptor: int,
        noted: Callable[[int], None],
    ) -> None:
        self.path = path
        self._noted = noted
        self._events = events
        self._descriptor = descriptor
        self._count = len(events)
        self._lock = threading.Lock()
        self._steps = {
            _key(event): event for event in events if event["type"] in ("reply", "check")
        }
        self._statuses = {
            (event["question_id"], event["repeat"]): _status(event["status"])
            for event in events
            if event["type"] == "status"
        }

    @classmethod
    def open(
        cls, path: Path, config: dict[str, Any], noted: Callable[[int], None] = lambda count: None
    ) -> Self:
        """Begin a journal, or go on with one of the same settings.

        Args:
            path: the file; its folder is made.
            config: the settings; written into the first event.
            noted: called with the number of events after each that was written.

        Raises:
            UsageError: the journal is of other settings, or is none.
            StorageError: it cannot be read or written.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = _locked(path)
            events, whole = _read(path)
            wanted = config_hash(config)
            if events and events[0].get("config_hash") != wanted:
                raise UsageError(
                    f"{path} is of an exam with other settings: {_changed(events[0], config)}.",
                    cure="Choose another --out folder, or give the settings of the first start.",
                )
            os.ftruncate(descriptor, whole)
        except OSError as error:
            raise StorageError(
                f"The journal {path} cannot be used ({error.strerror}).",
                cure="Choose an --out folder that can be written.",
            ) from error
        journal = cls(path, events, descriptor, noted)
        if not events:
            now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
            journal.write("started", config_hash=wanted, config=config, generated_at=now)
        return journal

    @property
    def generated_at(self) -> str:
        """When the exam was started, ISO 8601 in UTC: a resumed exam has the same."""
        return str(self._events[0]["generated_at"])

    @property
    def events(self) -> tuple[dict[str, Any], ...]:
        """All events in order."""
        return tuple(self._events)

    def status(self, question_id: str, repeat: int) -> QuestionStatus | None:
        """How a question ended, None when it has not."""
        return self._statuses.get((question_id, repeat))

    def step(self, key: StepKey) -> dict[str, Any] | None:
        """The event of a finished step."""
        return self._steps.get(key)

    def write(self, kind: str, **fields: Any) -> None:
        """Append an event. Raises StorageError."""
        with self._lock:
            self._write(kind, fields)

    def _write(self, kind: str, fields: dict[str, Any]) -> None:
        line = orjson.dumps({"n": self._count, "type": kind, **fields}) + b"\n"
        try:
            if os.write(self._descriptor, line) != len(line):
                raise StorageError(
                    f"The journal {self.path} could not be written: the disk is full."
                )
        except OSError as error:
            raise StorageError(
                f"The journal {self.path} cannot be written ({error.strerror}).",
                cure="Free some space and start the same command again: it goes on from here.",
            ) from error
        self._count += 1
        event = orjson.loads(line)
        self._events.append(event)
        if kind in ("reply", "check"):
            self._steps[_key(event)] = event
        self._noted(self._count)

    async def append(self, kind: str, **fields: Any) -> None:
        """`write`, in a thread: the loop does not wait for the disk."""
        await asyncio.to_thread(self.write, kind, **fields)

    async def finish_question(self, status: QuestionStatus, repeat: int) -> None:
        """Append how a question ended."""
        self._statuses[status.question_id, repeat] = status
        await self.append(
            "status", question_id=status.question_id, repeat=repeat, status=asdict(status)
        )

    def close(self) -> None:
        """Close the file, all of it on the disk."""
        os.fsync(self._descriptor)
        os.close(self._descriptor)


def started(path: Path) -> dict[str, Any] | None:
    """The settings that a journal was begun with, None when there is no journal yet.

    Raises:
        UsageError: it is no journal.
    """
    events, _ = _read(path)
    return events[0].get("config") if events else None


def ending(path: Path) -> dict[str, Any] | None:
    """The event that ended an exam, None when there is no journal or the exam goes on.

    Raises:
        UsageError: it is no journal.
    """
    events, _ = _read(path)
    return next((event for event in reversed(events) if event["type"] == "finished"), None)


class RecordedAsker:
    """Asks once: what was answered before a kill is taken from the journal.

    Args:
        asker: who asks when the journal has no reply.
        journal: where replies are kept.
        repeat: of the exam, from 1.
    """

    def __init__(self, asker: Asker, journal: Journal, repeat: int) -> None:
        self._asker = asker
        self._journal = journal
        self._repeat = repeat

    async def ask(self, ask: Ask) -> Reply:
        """See Asker."""
        asked = digest(ask.role, ask.system, ask.prompt)
        place = (ask.problem.id, self._repeat, ask.role, ask.step, ask.attempt, ask.number)
        known = self._journal.step((*place, asked))
        if known is not None:
            return Reply(known["reply"], Tokens.from_dict(known["usage"]), known["ms"])
        reply = await self._asker.ask(replace(ask, repeat=self._repeat))
        await self._journal.append(
            "reply",
            at=time.time(),
            question_id=ask.problem.id,
            repeat=self._repeat,
            role=ask.role,
            step=ask.step,
            attempt=ask.attempt,
            number=ask.number,
            request=asked,
            reply=reply.text,
            usage=reply.tokens.to_dict(),
            ms=reply.latency_ms,
        )
        return reply


class RecordedChecker:
    """Checks once: outcomes are kept in the journal. Arguments as of RecordedAsker."""

    def __init__(self, checker: Checker, journal: Journal, repeat: int) -> None:
        self._checker = checker
        self._journal = journal
        self._repeat = repeat

    async def check(self, problem: Problem, response: str) -> CheckOutcome:
        """See Checker."""
        asked = digest(problem.text, *problem.options, response)
        place = (problem.id, self._repeat, "check", "check", 0, 0)
        known = self._journal.step((*place, asked))
        if known is not None:
            return CheckOutcome(**known["outcome"])
        outcome = await self._checker.check(problem, response)
        await self._journal.append(
            "check",
            at=time.time(),
            question_id=problem.id,
            repeat=self._repeat,
            role="check",
            step="check",
            attempt=0,
            number=0,
            request=asked,
            outcome=asdict(outcome),
        )
        return outcome


def _locked(path: Path) -> int:
    """The file, open for appending, and nobody else's until it is closed."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise UsageError(
            f"Another process sits the exam of {path.parent}.",
            cure="Wait for it, or choose another --out folder.",
        ) from error
    return descriptor


def _read(path: Path) -> tuple[list[dict[str, Any]], int]:
    """Events of a journal, and the bytes that are whole lines."""
    data = path.read_bytes() if path.exists() else b""
    events: list[dict[str, Any]] = []
    whole = 0
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            event: dict[str, Any] = orjson.loads(line)
            event["type"]
        except (ValueError, TypeError, KeyError) as error:
            raise UsageError(
                f"{path}, line {number}, is no event of an exam's journal.",
                cure="Choose another --out folder.",
            ) from error
        events.append(event)
        whole += len(line) + 1
    if events and events[0]["type"] != "started":
        raise UsageError(f"{path} is no journal of an exam.", cure="Choose another --out folder.")
    return events, whole


def _changed(first: dict[str, Any], config: dict[str, Any]) -> str:
    before: dict[str, Any] = first.get("config") or {}
    names = sorted({*before, *config})
    told = [
        name for name in names if before.get(name) != orjson.loads(orjson.dumps(config)).get(name)
    ]
    return ", ".join(told) or "another version"


def _key(event: dict[str, Any]) -> StepKey:
    names = ("question_id", "repeat", "role", "step", "attempt", "number", "request")
    return tuple(event[name] for name in names)


def _status(stored: dict[str, Any]) -> QuestionStatus:
    return QuestionStatus(**stored)
