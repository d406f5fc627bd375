"""`deerflow threads`: list, show and delete conversations of this home."""

from __future__ import annotations

import asyncio
import datetime
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import orjson
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from deerflow.cli import output
from deerflow.cli.exits import ANSWERED
from deerflow.cli.run import as_line
from deerflow.cli.source import read
from deerflow.cli.transcript import Transcript
from deerflow.config.load import LoadedConfig
from deerflow.events import Event
from deerflow.runtime.checks import no_thread
from deerflow.runtime.request import LOCAL_USER
from deerflow.storage.protocol import Storage, ThreadRow
from deerflow.wiring.stores import delete_thread, has_stores, open_stores


def show_list(config: Path | None, limit: int, as_json: bool) -> int:
    """Print threads, newest first: a table on a terminal, tab-separated lines elsewhere."""
    loaded, _ = read(config)
    rows = asyncio.run(_rows(loaded, limit))
    if as_json:
        for row in rows:
            output.write_line(orjson.dumps(_record(row)))
    elif not rows:
        output.note("No threads yet.")
    elif sys.stdout.isatty():
        _print_table(rows)
    else:
        for row in rows:
            fields = (row.thread_id, _time(row.updated_at), row.status, row.title)
            output.say("\t".join(output.one_line(field) for field in fields))
    return ANSWERED


def show_one(config: Path | None, thread_id: str, as_json: bool) -> int:
    """Print a conversation, or its events as JSON lines.

    Raises:
        NotFoundError: no such thread.
    """
    loaded, _ = read(config)
    asyncio.run(_show(loaded, thread_id, as_json))
    return ANSWERED


def delete_one(config: Path | None, thread_id: str) -> int:
    """Remove a thread.

    Raises:
        NotFoundError: no such thread.
        ConflictError: a living process runs it.
    """
    loaded, _ = read(config)
    gone = has_stores(loaded) and asyncio.run(delete_thread(loaded, LOCAL_USER, thread_id))
    if not gone:
        raise no_thread(thread_id)
    output.note(f"Deleted {thread_id}.")
    return ANSWERED


async def _rows(loaded: LoadedConfig, limit: int) -> list[ThreadRow]:
    if not has_stores(loaded):
        return []
    async with open_stores(loaded) as storage:
        return await storage.threads.list(LOCAL_USER, limit=limit)


async def _show(loaded: LoadedConfig, thread_id: str, as_json: bool) -> None:
    if not has_stores(loaded):
        raise no_thread(thread_id)
    async with open_stores(loaded) as storage:
        thread = await storage.threads.get(LOCAL_USER, thread_id)
        if thread is None:
            raise no_thread(thread_id)
        transcript = Transcript()
        async for event in _events(storage, thread.thread_key):
            if as_json:
                output.write_line(orjson.dumps(as_line(event)))
            else:
                for line in transcript.lines(event):
                    output.say(line)


async def _events(storage: Storage, key: str) -> AsyncIterator[Event]:
    after = 0
    while events := await storage.events.read(key, after=after):
        for event in events:
            yield event
        after = events[-1].seq


def _print_table(rows: Sequence[ThreadRow]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("thread", no_wrap=True)
    table.add_column("last run", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("title", overflow="ellipsis", no_wrap=True)
    for row in rows:
        when = datetime.datetime.fromtimestamp(row.updated_at, datetime.UTC).astimezone()
        fields = (row.thread_id, f"{when:%Y-%m-%d %H:%M}", row.status, row.title)
        table.add_row(*(Text(output.one_line(field)) for field in fields))
    Console(highlight=False).print(table)


def _record(row: ThreadRow) -> dict[str, str]:
    return {
        "thread_id": row.thread_id,
        "title": row.title,
        "status": row.status,
        "created_at": _time(row.created_at),
        "updated_at": _time(row.updated_at),
    }


def _time(seconds: float) -> str:
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
