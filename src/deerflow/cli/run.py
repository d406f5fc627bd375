"""`deerflow run`: starts one run, shows it, and turns its end into an exit code."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from deerflow.cli import output
from deerflow.cli.exits import STOPPED, exit_code
from deerflow.cli.listener import noticing_departure
from deerflow.cli.log import log_to_file
from deerflow.cli.progress import Progress
from deerflow.cli.remembering import remember
from deerflow.cli.source import read
from deerflow.cli.stop import Stop
from deerflow.cli.waiting import approval_lines, question_lines
from deerflow.errors import StorageError
from deerflow.events import Event
from deerflow.runtime.goals import closing_line
from deerflow.runtime.request import RunRequest, RunResult
from deerflow.runtime.runs import RunHandle
from deerflow.runtime.verification import closing_line as verification_line
from deerflow.wiring.harness import Harness, open_harness

INTERNAL = "error"
"""Code of an error that nobody foresaw; its traceback is in the log file."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The command line of `deerflow run`; see its --help."""

    request: RunRequest
    config: Path | None = None
    as_json: bool = False
    memory_wait: bool = True


def run(options: RunOptions) -> int:
    """Run and print; returns the exit code.

    Raises:
        DeerFlowError: the run could not be started, or its end could not be stored.
    """
    return asyncio.run(_run(options, Stop()))


async def _run(options: RunOptions, stop: Stop) -> int:
    stop.listen()
    loaded, environ = read(options.config)
    for warning in loaded.warnings:
        output.note(f"deerflow: {warning}")
    result: RunResult | None = None
    with log_to_file(loaded.home, loaded.config.log_level) as log:
        try:
            async with open_harness(loaded, environ, request=options.request) as harness:
                result = await _followed(harness, options, stop)
                if result is not None:
                    _tell(result, options, log)
                if options.memory_wait and _ended_well(result) and not stop.requested:
                    await remember(harness, options.request.user_id, stop)
        except asyncio.CancelledError:
            output.note(stop.again())
            return STOPPED
        except StorageError as error:  # closing meets what ended the run, and that was told
            if result is None or (result.error or {}).get("message") != error.message:
                raise
    return STOPPED if result is None else exit_code(result)


def _tell(result: RunResult, options: RunOptions, log: Path) -> None:
    if not options.as_json:
        _print_answer(result)
    for line in closing_lines(result, log):
        output.note(line)


def _ended_well(result: RunResult | None) -> bool:
    """Whether the models may be asked for more: a run that failed would only fail again."""
    return result is not None and result.status in ("success", "interrupted")


async def _followed(harness: Harness, options: RunOptions, stop: Stop) -> RunResult | None:
    if harness.found:
        output.note(f"deerflow: {harness.found}")
    handle = await harness.runs.start(options.request)
    stop.attach(handle.thread_id, handle.cancel)
    return await (_as_json(handle) if options.as_json else _shown(handle, stop))


async def _as_json(handle: RunHandle) -> RunResult | None:
    """Each event as one JSON line, at once. None when nobody reads them: the run is stopped."""
    reading = True
    with noticing_departure(handle.cancel):
        async for event in handle.events():
            if reading:
                try:
                    await asyncio.to_thread(output.write_line, orjson.dumps(as_line(event)))
                except BrokenPipeError:
                    reading = False
                    output.discard()
                    handle.cancel()
    result = await handle.result()
    return result if reading else None


def as_line(event: Event) -> dict[str, Any]:
    """An event as `--json` prints it; created_at is ISO 8601 in UTC."""
    created = datetime.datetime.fromtimestamp(event.created_at, datetime.UTC)
    return {
        "seq": event.seq,
        "type": event.type,
        "run_id": event.run_id,
        "thread_id": event.thread_id,
        "created_at": created.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "payload": event.payload,
    }


async def _shown(handle: RunHandle, stop: Stop) -> RunResult:
    """Live progress on stderr when it is a terminal, nothing otherwise but what it notes."""
    if not sys.stderr.isatty():
        async for event in handle.events():
            if event.type == "notice":  # what a run wants people to know is told in any case
                output.note(f"Note: {event.payload.get('message', '')}")
        return await handle.result()
    with Progress(stopping=lambda: stop.requested) as progress:
        text = asyncio.create_task(_follow_text(handle, progress))
        try:
            async for event in handle.events():
                progress.event(event)
        finally:
            text.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await text
    return await handle.result()


async def _follow_text(handle: RunHandle, progress: Progress) -> None:
    async for delta in handle.deltas():
        progress.text(delta.message_id, delta.text)


def _print_answer(result: RunResult) -> None:
    """The answer, or the question that the run ended with."""
    detail = result.outcome.detail if result.outcome else {}
    question: dict[str, Any] = detail.get("question") or {}
    answer = str(question.get("question", "")) or result.text
    if answer:
        output.say(answer)
    for line in question_lines(question):
        output.say(line)
    output.flush()


def closing_lines(result: RunResult, log: Path) -> list[str]:
    """What stands below the answer: files with host paths, why it stopped, how to go on."""
    lines = [f"  {artifact.host}  ({size(artifact.size)})" for artifact in result.artifacts]
    if lines:
        lines.insert(0, "Artifacts:")
    again = f"--thread {shlex.quote(result.thread_id)}"
    kind = result.outcome.kind if result.outcome else result.status
    detail = result.outcome.detail if result.outcome else {}
    reasons = {
        "empty": "The model gave no answer.",
        "deliverable_missing": f"Not delivered: {', '.join(detail.get('missing', ()))}.",
        "waiting_for_human": f'Answer with: deerflow run "ANSWER" {again}',
        "limit_reached": f"Limit reached: {detail.get('rule')} ({detail.get('used')} of "
        f'{detail.get("limit")}). Go on with: deerflow run "go on" {again}',
        "cancelled": f"Stopped; all is saved. Go on with: deerflow run {again} --resume",
    }
    if "approvals" in detail:
        lines += approval_lines(detail["approvals"])
    elif kind in reasons:
        lines.append(reasons[kind])
    if "verification" in detail:
        lines.append(verification_line(detail["verification"]))
    if result.goal:
        lines.append(closing_line(result.goal))
    if result.error:
        lines += _failure(result.error, again, log)
    return lines


def _failure(error: dict[str, Any], again: str, log: Path) -> list[str]:
    lines = [f"Failed: {error.get('message', '')} {error.get('cure', '')}".rstrip()]
    if error.get("code") == INTERNAL and log.exists():
        lines.append(f"Details: {log}")
    return [*lines, f"Try again with: deerflow run {again} --resume"]


def size(count: int) -> str:
    """A number of bytes for people."""
    value = float(count)
    for unit in ("bytes", "KB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"
