"""P08: thousands of threads are listed from an index, page by page, to the last."""

from pathlib import Path

from deerflow.storage.sql.driver import connect
from deerflow.storage.sql.schema import prepare
from deerflow.storage.sql.storage import SqliteStorage


async def test_p08_paging_reaches_5000_threads_and_reads_an_index(tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    prepare(path)
    connection = connect(path)
    connection.execute("BEGIN")
    for number in range(5000):
        connection.execute(
            "INSERT INTO thread_keys (id, thread_key, last_seq) VALUES (?, ?, 0)",
            (number + 1, f"{number:032x}"),
        )
        connection.execute(
            "INSERT INTO threads VALUES (?, 'ann', ?, '', 'idle', ?, ?, '{}')",
            (number + 1, f"t{number}", number, number // 3),
        )
    connection.execute("COMMIT")
    storage = SqliteStorage(path)

    seen: list[str] = []
    before = None
    while page := await storage.threads.list("ann", limit=200, before=before):
        seen += [row.thread_id for row in page]
        before = (page[-1].updated_at, page[-1].thread_key)
    await storage.close()
    plan = connection.execute(
        "EXPLAIN QUERY PLAN SELECT t.title FROM threads t JOIN thread_keys k ON k.id = t.id"
        " WHERE t.user_id = ? ORDER BY t.updated_at DESC, k.thread_key DESC LIMIT 50",
        ("ann",),
    ).fetchall()
    connection.close()

    assert sorted(seen) == sorted(f"t{number}" for number in range(5000))
    assert any("ix_threads_newest" in row[3] for row in plan)
