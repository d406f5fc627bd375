"""`task_batch`: hundreds of independent items as one durable job."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import time
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any, cast

from langchain_core.tools import BaseTool
from langgraph.errors import GraphInterrupt
from pydantic import BaseModel, WithJsonSchema

from deerflow.agent.calls import CallBook
from deerflow.agent.context import RunContext
from deerflow.config.schema import BatchConfig
from deerflow.errors import DeerFlowError, SandboxError, ToolError
from deerflow.middlewares.token_usage import CHILD_USAGE, add_child
from deerflow.storage.protocol import BatchRow
from deerflow.subagents.batch_items import Sheet, check_template, dumped, listed, parsed
from deerflow.subagents.batch_job import BatchJob, Executor, Plan
from deerflow.subagents.batch_results import (
    FOLDER,
    file_name,
    review,
    summary,
    write_results,
)
from deerflow.subagents.roster import GENERAL, Roster, SubagentSpec
from deerflow.tools.place import existing_file
from deerflow.tools.schema import Number, Runtime, Text, answer, make_tool, optional, state_of

NAME = "task_batch"
BATCH = "deerflow_batch"
"""additional_kwargs of the result: {batch_id, total, done, failed, path}."""
MAX_BYTES = 64 << 20
"""Bytes of a file of items."""
AGAIN = "batch:"
"""Begins `items` that name an earlier batch of the thread, whose results could not be written."""
LAST_WORDS = 1.0
"""Seconds that a stopped batch may take to write down what it has."""

_DESCRIPTION = (
    "One task for many items. `items`: list, or path of a JSONL, JSON, CSV or text "
    "file (best for many). `prompt_template` has {item} or {field}. Gives a JSONL file."
)


class BatchArgs(BaseModel):
    """Arguments of task_batch."""

    items: Annotated[
        list[Any] | str, WithJsonSchema({"anyOf": [{"type": "array"}, {"type": "string"}]})
    ]
    prompt_template: str
    subagent_type: Text = optional(str)
    max_turns: Number = optional()


def batch_tools(executor: Executor, roster: Roster, config: BatchConfig) -> list[BaseTool]:
    """The `task_batch` tool.

    Args:
        executor: runs the children.
        roster: kinds of child.
        config: section `batch`.
    """

    async def task_batch(
        items: list[Any] | str,
        prompt_template: str,
        runtime: Runtime,
        subagent_type: str = "",
        max_turns: int | None = None,
    ) -> Any:
        run = cast("RunContext", runtime.context)
        row = await _earlier(items, run)
        spec = _kind(roster, row.settings["kind"] if row is not None else subagent_type)
        batch_id = _batch_id(runtime, run)
        row = row or await run.storage.batches.get(batch_id)
        if row is None:
            _check_turns(max_turns)
            sheet, source = await _read(items, runtime, config.max_items)
            await asyncio.to_thread(check_template, prompt_template, sheet)
            day = datetime.now(UTC).astimezone().date().isoformat()
            name = file_name(source, batch_id)
            plan = Plan(prompt_template, spec.name, day, name, max_turns or 0)
            row = await _create(run, batch_id, plan, sheet)
        job = BatchJob(executor, spec, row, runtime)
        path = f"{FOLDER}/{row.settings['file']}.jsonl"
        await _worked(job, config.concurrency, path)
        if job.interrupts:
            raise GraphInterrupt(job.interrupts)
        return await _told(job, path, runtime)

    return [make_tool(NAME, _DESCRIPTION, BatchArgs, task_batch, {"idempotent": True})]


async def _worked(job: BatchJob, concurrency: int, path: str) -> None:
    """Run the job; whatever ends it, the file holds what there is."""
    # where the results go is slow to start, and missing it is better known early
    tasks: list[asyncio.Task[Any]] = [
        asyncio.create_task(job.run.sandbox()),
        asyncio.create_task(job.work(concurrency)),
    ]
    whole = False
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
        whole = True
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        job.tally.tell()
        if not whole:
            with contextlib.suppress(DeerFlowError, TimeoutError):
                async with asyncio.timeout(LAST_WORDS):
                    await write_results(job.run, job.row, path)
    try:
        await write_results(job.run, job.row, path)
    except SandboxError as error:
        raise ToolError(
            f"All {job.row.total:,} items were run, but their results cannot be written: "
            f"{error.message}",
            cure=f"{error.cure} Then call {NAME} with items {AGAIN + job.row.batch_id!r}: what is "
            "done is not run again.".lstrip(),
        ) from error


async def _told(job: BatchJob, path: str, runtime: Runtime) -> Any:
    """The result of the call."""
    run, row = job.run, job.row
    failures, meter = await review(run, row)
    counts = await run.storage.batches.counts(row.batch_id)
    add_child(run, runtime.tool_call_id or "", None)  # its items have been counted
    facts: dict[str, Any] = {"batch_id": row.batch_id, "total": row.total, "path": path}
    facts |= {status: counts.get(status, 0) for status in ("done", "failed")}
    extra: dict[str, Any] = {BATCH: facts}
    if row.run_id == run.run_id:  # else another run has paid
        extra[CHILD_USAGE] = meter.to_dict()
    text = summary(counts, row.total, path, failures)
    return answer(NAME, runtime, text, additional_kwargs=extra)


async def _earlier(items: list[Any] | str, run: RunContext) -> BatchRow | None:
    """The batch that `items` names, None when they are items.

    Raises:
        ToolError: the thread has no such batch.
    """
    if not isinstance(items, str) or not items.startswith(AGAIN):
        return None
    row = await run.storage.batches.get(items.removeprefix(AGAIN).strip())
    if row is None or row.thread_key != run.thread_key:
        raise ToolError(f"There is no {items!r} here.", cure="Give a list, or a path.")
    return row


async def _read(items: list[Any] | str, runtime: Runtime, most: int) -> tuple[Sheet, str]:
    """The items and the name of their source.

    Raises:
        ToolError: none, too many, broken ones, or no such file.
    """
    source = ""
    if isinstance(items, str) and items.lstrip().startswith("["):
        items = _inline(items)
    if isinstance(items, str):
        sandbox = await runtime.context.sandbox()
        info = await existing_file(items, runtime, sandbox)
        if info.size > MAX_BYTES:
            raise ToolError(
                f"{info.path} has {info.size:,} bytes, more than {MAX_BYTES:,}.",
                cure="Split it, or list paths of files as items.",
            )
        source = info.path
        sheet = await asyncio.to_thread(parsed, source, await sandbox.read(source))
    else:
        sheet = listed(items)
    where = source or "The list"
    if not sheet.items:
        raise ToolError(f"{where} holds no item.", cure="Give at least one.")
    if len(sheet.items) > most:
        raise ToolError(
            f"{where} holds {len(sheet.items):,} items, more than {most:,} (batch.max_items).",
            cure="Split it into several batches.",
        )
    return sheet, source


def _inline(text: str) -> list[Any]:
    """A list that came as JSON text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ToolError(
            f"`items` is broken JSON: {error}.", cure="Give a list, or the path of a file."
        ) from None


async def _create(run: RunContext, batch_id: str, plan: Plan, sheet: Sheet) -> BatchRow:
    row = BatchRow(
        batch_id=batch_id,
        user_id=run.user_id,
        thread_key=run.thread_key,
        run_id=run.run_id,
        total=len(sheet.items),
        created_at=time.time(),
        settings=asdict(plan),
    )
    return await run.storage.batches.create(row, [dumped(item) for item in sheet.items])


def _batch_id(runtime: Runtime, run: RunContext) -> str:
    """The same whenever the call is entered."""
    book: CallBook = run.scratch[CallBook]
    place = book.place(state_of(runtime)["messages"], runtime.tool_call_id or "")
    key = (run.thread_key, run.run_id, run.namespace, place.message_id, str(place.index))
    return hashlib.sha256("\0".join(key).encode()).hexdigest()[:32]


def _kind(roster: Roster, name: str) -> SubagentSpec:
    spec = roster.get(name or GENERAL.name)
    if spec is None:
        kinds = ", ".join(kind.name for kind in roster.kinds)
        raise ToolError(f"There is no kind of child named {name!r}.", cure=f"Kinds: {kinds}.")
    return spec


def _check_turns(max_turns: int | None) -> None:
    if max_turns is not None and max_turns < 1:
        raise ToolError("A child needs at least one model turn.", cure="Raise max_turns.")
