"""`deerflow threads`: list, show and delete conversations of this home."""

from __future__ import annotations

import datetime
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson

from deerflow.cli.exits import ANSWERED, fail
from deerflow.cli.run import as_line
from deerflow.config.load import load_config, read_environ
from deerflow.errors import DeerFlowError, NotFoundError
from deerflow.events import Event
from deerflow.runtime.request import LOCAL_USER
from deerflow.storage.protocol import Storage
from deerflow.wiring import open_stores


@asynccontextmanager
async def _stores(config: Path | None) -> AsyncIterator[tuple[Storage, Path]]:
    cwd = Path.cwd()
    environ = read_environ(cwd=cwd, config=config)
    loaded = load_config(config, environ=environ, cwd=cwd)
    async with open_stores(loaded) as storage:
        yield storage, loaded.home


async def show_list(config: Path | None, limit: int, as_json: bool) -> int:
    """Print threads, newest first."""
    try:
        async with _stores(config) as (storage, _):
            rows = await storage.threads.list(LOCAL_USER, limit=limit)
    except DeerFlowError as error:
        return fail(error)
    if as_json:
        for row in rows:
            record = {
                "thread_id": row.thread_id,
                "title": row.title,
                "status": row.status,
                "created_at": _time(row.created_at),
                "updated_at": _time(row.updated_at),
            }
            sys.stdout.write(orjson.dumps(record).decode() + "\n")
        return ANSWERED
    for row in rows:
        print(f"{row.thread_id}  {_time(row.updated_at)}  {row.status:<11}  {row.title}")
    if not rows:
        print("No threads yet.", file=sys.stderr)
    return ANSWERED


async def show_one(config: Path | None, thread_id: str, as_json: bool) -> int:
    """Print a conversation, or its events."""
    try:
        async with _stores(config) as (storage, _):
            thread = await storage.threads.get(LOCAL_USER, thread_id)
            if thread is None:
                raise NotFoundError(
                    f"There is no thread {thread_id!r} in this home.",
                    cure="`deerflow threads list` shows them.",
                )
            after = 0
            while events := await storage.events.read(thread.thread_key, after=after):
                for event in events:
                    _print_event(event, as_json)
                after = events[-1].seq
    except DeerFlowError as error:
        return fail(error)
    return ANSWERED


async def delete_one(config: Path | None, thread_id: str) -> int:
    """Remove a thread."""
    from deerflow.wiring import delete_thread  # noqa: PLC0415  (shares the folder rule with the runner)

    try:
        cwd = Path.cwd()
        environ = read_environ(cwd=cwd, config=config)
        loaded = load_config(config, environ=environ, cwd=cwd)
        gone = await delete_thread(loaded, LOCAL_USER, thread_id)
        if not gone:
            raise NotFoundError(f"There is no thread {thread_id!r} in this home.")
    except DeerFlowError as error:
        return fail(error)
    print(f"Deleted {thread_id}.", file=sys.stderr)
    return ANSWERED


def _print_event(event: Event, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(orjson.dumps(as_line(event)).decode() + "\n")
        return
    if event.type == "message":
        _print_message(event.payload["message"])
    elif event.type == "artifacts":
        for path in event.payload["artifacts"]:
            print(f"  ⇒ {path}")
    elif event.type == "run_ended":
        error = event.payload.get("error") or {}
        outcome = (event.payload.get("outcome") or {}).get("kind", "")
        print(f"  — {event.payload['status']} {outcome} {error.get('message', '')}".rstrip())


def _print_message(message: dict[str, Any]) -> None:
    content = message.get("content")
    text = content if isinstance(content, str) else "[parts]"
    names = {"human": "You", "ai": "DeerFlow", "tool": f"  {message.get('name', 'tool')}"}
    if message["type"] == "tool":
        text = text if len(text) <= 300 else f"{text[:300]} … ({len(text)} characters)"
    if text:
        print(f"{names.get(message['type'], message['type'])}: {text}")
    for call in message.get("tool_calls", ()):
        print(f"  → {call['name']} {orjson.dumps(call['args']).decode()[:200]}")


def _time(seconds: float) -> str:
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
