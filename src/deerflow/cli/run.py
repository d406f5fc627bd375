"""`deerflow run`: starts one run, shows it, and turns its end into an exit code."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from deerflow.cli.exits import exit_code, fail
from deerflow.cli.progress import Progress
from deerflow.config.load import load_config, read_environ
from deerflow.errors import DeerFlowError
from deerflow.events import Event
from deerflow.runtime.request import RunRequest, RunResult
from deerflow.runtime.runs import RunHandle
from deerflow.wiring import open_harness


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The command line of `deerflow run`; see its --help."""

    task: str
    as_json: bool
    thread: str | None
    resume: bool
    model: str | None
    config: Path | None
    uploads: tuple[Path, ...]
    expect: tuple[str, ...]
    plan: bool
    max_turns: int | None


async def run_task(options: RunOptions) -> int:
    """Run and print; returns the exit code."""
    try:
        cwd = Path.cwd()
        environ = read_environ(cwd=cwd, config=options.config)
        loaded = load_config(options.config, environ=environ, cwd=cwd)
        for warning in loaded.warnings:
            print(f"deerflow: {warning}", file=sys.stderr)
        async with open_harness(loaded, environ) as harness:
            if harness.found:
                print(f"deerflow: {harness.found}", file=sys.stderr)
            handle = await harness.runs.start(
                RunRequest(
                    task=options.task,
                    thread_id=options.thread,
                    model=options.model,
                    uploads=options.uploads,
                    expect=options.expect,
                    plan=options.plan,
                    max_turns=options.max_turns,
                    resume=options.resume,
                )
            )
            with _stopping(handle):
                result = await (_as_json(handle) if options.as_json else _shown(handle))
    except DeerFlowError as error:
        return fail(error)
    if not options.as_json:
        _report(result)
    return exit_code(result)


async def _as_json(handle: RunHandle) -> RunResult:
    """Each event as one JSON line, at once."""
    out = sys.stdout.buffer
    async for event in handle.events():
        out.write(orjson.dumps(as_line(event)) + b"\n")
        out.flush()
    return await handle.result()


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


async def _shown(handle: RunHandle) -> RunResult:
    """Live progress on stderr when it is a terminal, nothing otherwise."""
    if not sys.stderr.isatty():
        return await handle.result()
    with Progress() as progress:
        text = asyncio.create_task(_follow_text(handle, progress))
        async for event in handle.events():
            progress.event(event)
        text.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await text
    return await handle.result()


async def _follow_text(handle: RunHandle, progress: Progress) -> None:
    async for delta in handle.deltas():
        progress.text(delta.message_id, delta.text)


def _report(result: RunResult) -> None:
    """Answer on stdout; what else the reader needs on stderr."""
    question = (result.outcome.detail.get("question") if result.outcome else None) or {}
    answer = str(question.get("question", "")) or result.answer
    if answer:
        print(answer)
    for index, option in enumerate(question.get("options") or (), 1):
        print(f"  {index}. {option}")
    sys.stdout.flush()
    for line in closing_lines(result):
        print(line, file=sys.stderr)


def closing_lines(result: RunResult) -> list[str]:
    """What stands below the answer: artifacts with host paths, why it stopped, how to go on."""
    lines = [f"{artifact.host}  ({artifact.size} bytes)" for artifact in result.artifacts]
    if lines:
        lines.insert(0, "Artifacts:")
    again = f"--thread {result.thread_id}"
    kind = result.outcome.kind if result.outcome else result.status
    detail = result.outcome.detail if result.outcome else {}
    error = result.error or {}
    reasons = {
        "empty": "The model gave no answer.",
        "deliverable_missing": f"Not delivered: {', '.join(detail.get('missing', ()))}.",
        "waiting_for_human": f'Answer with: deerflow run "ANSWER" {again}',
        "limit_reached": f"Limit reached: {detail.get('rule')} ({detail.get('used')} of "
        f'{detail.get("limit")}). Go on with: deerflow run "go on" {again}',
        "cancelled": f"Stopped; all is saved. Go on with: deerflow run {again} --resume",
        "error": f"Failed: {error.get('message', '')} {error.get('cure', '')}".rstrip()
        + f"\nTry again with: deerflow run {again} --resume",
    }
    if kind in reasons:
        lines.append(reasons[kind])
    return lines


@contextlib.contextmanager
def _stopping(handle: RunHandle) -> Any:
    """First Ctrl-C (or SIGTERM) stops the run and saves; the second ends the process at once."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        handle.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
