"""Processes that write to one user's memory: nothing is lost, nothing is doubled."""

from __future__ import annotations

import asyncio
import multiprocessing
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from conftest import Scale
from fakes.memories import SHARED, Writer, opened, skip_reason, storm


@pytest.fixture(scope="session")
def processes() -> ForkServerContext:
    """Starts processes quickly: what they import is imported once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["deerflow.memory.deermem.sql", "deerflow.memory.deermem.file"])
    return context


@pytest.fixture(params=SHARED)
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind that processes can share."""
    if reason := skip_reason(request.param):
        pytest.skip(reason)
    return request.param


async def test_everyone_gets_their_turn(
    kind: str, tmp_path: Path, processes: ForkServerContext
) -> None:
    """Four processes that write at full speed all come to their end."""
    async with opened(kind, tmp_path) as storage:
        writers = [Writer(processes, kind, tmp_path, f"p{n}", 8) for n in range(4)]
        for writer in writers:
            assert await asyncio.to_thread(writer.finish) == 0
        document = await storage.load("ann")
    assert sorted(fact.id for fact in document.facts) == sorted(
        f"p{n}-{number}" for n in range(4) for number in range(8)
    )
    assert document.revision == 32


async def test_kills_lose_and_double_nothing(
    kind: str, tmp_path: Path, processes: ForkServerContext, scale: Scale
) -> None:
    def start(name: str) -> Writer:
        return Writer(processes, kind, tmp_path, name, 10**9)

    async with opened(kind, tmp_path) as storage:
        writers = await asyncio.to_thread(storm, start, kills=scale(4, 25), between=scale(10, 20))
        document = await storage.load("ann")
        assert len(await storage.changes("ann")) == min(50, len(document.facts))
    stored = [fact.id for fact in document.facts]
    assert len(set(stored)) == len(stored)
    for writer in writers:
        mine = [fact_id for fact_id in stored if fact_id.startswith(f"{writer.name}-")]
        assert mine == [f"{writer.name}-{number}" for number in range(len(mine))]
        assert set(writer.reported) <= set(mine)
        assert len(mine) <= len(writer.reported) + 1  # durable, but killed before it could say so
    assert document.revision == len(stored)
