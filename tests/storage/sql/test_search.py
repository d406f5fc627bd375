"""A search among thousands of threads stays quick and reads no checkpoint."""

import time
from pathlib import Path
from typing import Any

import pytest

from deerflow.storage.encoding import dump_json
from deerflow.storage.protocol import ThreadQuery
from deerflow.storage.sql.driver import connect
from deerflow.storage.sql.schema import prepare
from deerflow.storage.sql.search import count_threads, search_threads

THREADS = 5000
SECONDS = 0.05
"""Processor time that a page may take."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Threads of ann, every seventh pinned, every tenth of kind x."""
    path = tmp_path_factory.mktemp("search") / "test.db"
    prepare(path)
    connection = connect(path)
    connection.execute("BEGIN")
    for number in range(THREADS):
        kind = "x" if number % 10 == 0 else "y"
        metadata = {"graph_id": "lead", "kind": kind, "words": "w" * 100}
        if number % 7 == 0:
            metadata["deerflow_pinned"] = True
        connection.execute(
            "INSERT INTO thread_keys (id, thread_key, last_seq) VALUES (?, ?, 0)",
            (number + 1, f"{number:032x}"),
        )
        connection.execute(
            "INSERT INTO threads VALUES (?, 'ann', ?, '', 'idle', ?, ?, ?)",
            (number + 1, f"t{number}", number, number, dump_json(metadata).decode()),
        )
    connection.execute("COMMIT")
    connection.execute("DROP TABLE checkpoints")  # who reads it fails
    connection.close()
    return path


@pytest.mark.parametrize(
    ("query", "first", "count"),
    [
        ({}, "t4999", THREADS),
        ({"pinned_first": True}, "t4998", THREADS),
        ({"metadata": {"kind": "x"}}, "t4990", THREADS // 10),
        ({"metadata": {"kind": "x"}, "pinned_first": True, "offset": 50}, "t1470", THREADS // 10),
    ],
)
def test_a_page_of_thousands(filled: Path, query: dict[str, Any], first: str, count: int) -> None:
    wanted = ThreadQuery(**query)
    connection, times = connect(filled, read_only=True), list[float]()
    for _ in range(3):
        start = time.thread_time()
        page = search_threads(connection, "ann", wanted)
        times.append(time.thread_time() - start)
        assert page[0].thread_id == first
        assert len(page) == 50
    start = time.thread_time()
    assert count_threads(connection, "ann", wanted) == count
    times.append(time.thread_time() - start)
    connection.close()

    assert min(times[:3]) < SECONDS
    assert times[3] < SECONDS
