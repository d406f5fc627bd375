"""Four processes tell facts of one user and are killed at random: nothing lost, nothing doubled."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Scale
from deerflow.memory.protocol import MemoryStorage
from deerflow.storage.sql.schema import prepare
from fakes.claimers import Competition, Ledger, Target
from fakes.memory_writers import (
    USER,
    drain,
    file_memory,
    last,
    sql_memory,
    write_files,
    write_tables,
)

KINDS: dict[str, tuple[Callable[[Path], MemoryStorage], Target]] = {
    "file": (file_memory, write_files),
    "sql": (sql_memory, write_tables),
}


@pytest.mark.parametrize("kind", list(KINDS))
async def test_nothing_is_lost_and_nothing_is_doubled(
    kind: str, tmp_path: Path, scale: Scale
) -> None:
    storage, target = KINDS[kind]
    path, ledger = tmp_path / "test.db", Ledger(tmp_path / "ledger")
    prepare(path)
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([target.__module__])
    last(path, seconds=scale(3, 60), least=scale(5, 0))
    killed = Competition(processes, target, path, ledger.path).run(scale(4, 500))
    memory = storage(path)
    assert await drain(memory, path) == 0
    facts = Counter(fact.content for fact in (await memory.load(USER)).facts)
    await memory.close()
    lines = ledger.read()
    said = {line["said"] for line in lines if "said" in line}
    tried = {line["tries"] for line in lines if "tries" in line}
    assert said, "nobody said anything"
    assert killed, "nobody was killed"
    assert said - facts.keys() == set(), "lost"
    assert facts.keys() - tried == set(), "invented"
    assert [fact for fact, count in facts.items() if count > 1] == [], "doubled"
