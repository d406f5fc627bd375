"""`deerflow memory`: show, search, forget, undo, export, import."""

from __future__ import annotations

import asyncio
import io
import json
import time
from pathlib import Path
from typing import Any

import pytest

from deerflow.cli.recall import (
    export_to,
    forget_one,
    import_from,
    show_all,
    show_found,
    undo_one,
)
from deerflow.config.load import load_config
from deerflow.errors import NotFoundError, StorageError, UsageError
from deerflow.memory.protocol import Fact, MemoryDocument, Source, Summary
from deerflow.runtime.request import LOCAL_USER
from deerflow.storage.protocol import QueuedExchange
from deerflow.wiring.memory import make_memory_storage
from deerflow.wiring.stores import open_stores
from fakes.terminal import Desk

NOON = 1_748_779_200.0
"""2025-06-01, in any zone of the machine within 11 hours of UTC."""

DOCUMENT = MemoryDocument(
    user={"workContext": Summary("Builds bridges.", NOON)},
    history={"earlierContext": Summary("Rome.")},
    facts=(
        Fact("f1", "Likes tea", "preference", 0.9, Source("t1", "m1"), NOON, NOON + 5 * 86_400),
        Fact("f2", "Lived in Bonn", superseded_by="g3"),
        Fact("g3", "Lives \x1b[31min\nOslo", "context", supersedes="f2", last_confirmed=NOON),
        Fact("g4", "Is in Rome", created_at=NOON, last_confirmed=NOON, valid_days=7.0),
    ),
)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEER_FLOW_HOME", raising=False)
    monkeypatch.delenv("DEER_FLOW_CONFIG_PATH", raising=False)
    desk = Desk(tmp_path)
    desk.write([{"text": "Hello."}])
    return desk


def remember(desk: Desk, document: MemoryDocument = DOCUMENT) -> Path:
    async def work() -> None:
        storage = make_memory_storage(loaded.config, loaded.home)
        await storage.update(LOCAL_USER, lambda _: (document, "given"))
        await storage.close()

    loaded = load_config(None, environ={}, cwd=desk.folder)
    asyncio.run(work())
    return loaded.home / "memory" / "users" / LOCAL_USER / "memory.json"


def queue(desk: Desk, count: int) -> None:
    async def work() -> None:
        async with open_stores(loaded) as storage:
            thread = await storage.threads.ensure(LOCAL_USER, "t1")
            for number in range(count):
                entry = QueuedExchange(
                    f"e{number}", LOCAL_USER, "t1", thread.thread_key, {"user": "x"}, time.time()
                )
                await storage.memory_queue.enqueue(entry, debounce=1e6, ceiling=1e6)

    loaded = load_config(None, environ={}, cwd=desk.folder)
    asyncio.run(work())


Capture = pytest.CaptureFixture[str]


def test_nothing_is_remembered_and_nothing_is_made(desk: Desk, capsys: Capture) -> None:
    assert show_all(None, past=False, as_json=False) == 0
    assert show_found(None, "tea", 15, as_json=False) == 0
    assert undo_one(None) == 0
    with pytest.raises(NotFoundError):
        forget_one(None, "f1")
    assert capsys.readouterr() == (
        "",
        "Nothing is remembered yet.\nNothing is remembered about that.\n"
        "There is nothing to undo.\n",
    )
    assert not (desk.folder / ".deer-flow").exists()


def test_show(desk: Desk, capsys: Capture) -> None:
    remember(desk)
    assert show_all(None, past=False, as_json=False) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        "Work (2025-06-01)",
        "  Builds bridges.",
        "Earlier (no date)",
        "  Rome.",
        "3 facts, 1 in the history",
        "  f1 preference 0.90 thread t1, 2025-06-01 confirmed 2025-06-06",
        "    Likes tea",
        "  g3 context 1.00 by hand, no date confirmed 2025-06-01",
        "    Lives [31min Oslo",
        "  g4 context 1.00 by hand, 2025-06-01 held until 2025-06-08",
        "    Is in Rome",
    ]
    assert shown.err == ""
    assert show_all(None, past=True, as_json=False) == 0
    assert "  f2 context 1.00 by hand, no date → g3" in capsys.readouterr().out


def test_what_waits_is_told(desk: Desk, capsys: Capture) -> None:
    queue(desk, 2)
    assert show_all(None, past=False, as_json=False) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "2 exchanges wait for extraction."
    assert show_all(None, past=False, as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["waiting"] == 2


def test_search(desk: Desk, capsys: Capture) -> None:
    remember(desk)
    assert show_found(None, "what tea", 15, as_json=False) == 0
    assert capsys.readouterr().out.splitlines()[1] == "  Likes tea"
    assert show_found(None, "tea oslo rome", 2, as_json=True) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 2
    (tea,) = [line for line in lines if line["id"] == "f1"] or [None]
    assert tea is None or (tea["thread"], tea["message"]) == ("t1", "m1")


def test_forget_by_the_beginning_of_the_id_and_undo(desk: Desk, capsys: Capture) -> None:
    remember(desk)
    with pytest.raises(UsageError, match="2 facts begin with 'g'"):
        forget_one(None, "g")
    for unknown in ("x", "tea"):
        with pytest.raises(NotFoundError):
            forget_one(None, unknown)
    assert forget_one(None, "f1") == 0
    show_found(None, "tea", 15, as_json=True)
    assert capsys.readouterr().out == ""
    assert undo_one(None) == 0
    assert capsys.readouterr().err.endswith("Taken back: forgot f1.\n")
    show_found(None, "tea", 15, as_json=True)
    assert json.loads(capsys.readouterr().out)["id"] == "f1"


def test_export_and_import(desk: Desk, capsys: Capture) -> None:
    file = remember(desk)
    assert export_to(None, None) == 0
    raw = json.loads(capsys.readouterr().out)
    assert export_to(None, desk.folder / "out.json") == 0
    assert json.loads((desk.folder / "out.json").read_bytes()) == raw
    assert (desk.folder / "out.json").stat().st_mode & 0o077 == 0
    assert capsys.readouterr().err == f"Exported 4 facts to {desk.folder / 'out.json'}.\n"

    file.unlink()
    for copy in (file.parent / "revisions").iterdir():
        copy.unlink()
    assert import_from(None, desk.folder / "out.json") == 0
    assert capsys.readouterr().err == "Imported 4 facts and 2 summaries.\n"
    assert export_to(None, None) == 0
    again = json.loads(capsys.readouterr().out)
    assert [fact["content"] for fact in again["facts"]] == [f["content"] for f in raw["facts"]]
    assert import_from(None, desk.folder / "out.json") == 0
    said = "Imported 0 facts and 0 summaries. Whatever it holds is remembered already.\n"
    assert capsys.readouterr().err == said


def test_an_export_that_fails_leaves_the_former_file(desk: Desk) -> None:
    remember(desk)
    with pytest.raises(OSError):
        export_to(None, desk.folder / "nowhere" / "out.json")
    assert not list(desk.folder.glob("**/*.new"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"facts": [{"content": "Lik', "is no JSON"),
        (b"", "is no JSON"),
        (b"[]", "holds no memory"),
        (None, "cannot be imported"),
    ],
)
def test_a_broken_file_is_refused_and_nothing_changes(
    desk: Desk, content: bytes | None, message: str
) -> None:
    file = remember(desk)
    before = file.read_bytes()
    if content is not None:
        (desk.folder / "in.json").write_bytes(content)
    with pytest.raises(UsageError, match=message) as caught:
        import_from(None, desk.folder / "in.json")
    assert caught.value.cure
    assert file.read_bytes() == before


def test_a_fact_of_1_mb_is_left_out_and_named(
    desk: Desk, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw: dict[str, Any] = {"facts": [{"content": "x" * 1_048_576}, {"content": "Likes tea"}]}

    class Stdin:
        buffer = io.BytesIO(json.dumps(raw).encode())

    monkeypatch.setattr("sys.stdin", Stdin())
    assert import_from(None, Path("-")) == 0
    assert capsys.readouterr().err.splitlines() == [
        "Left out: facts[0] has 1,048,576 characters, at most 2,000 are kept.",
        "Imported 1 fact and 0 summaries.",
    ]


def test_a_damaged_memory_is_named_with_its_cure(desk: Desk, capsys: Capture) -> None:
    file = remember(desk)
    file.write_bytes(file.read_bytes()[:100])
    (desk.folder / "in.json").write_text('{"facts": [{"content": "Likes coffee"}]}')
    for attempt in (
        lambda: show_all(None, past=False, as_json=False),
        lambda: show_found(None, "tea", 5, as_json=False),
        lambda: export_to(None, None),
        lambda: import_from(None, desk.folder / "in.json"),
    ):
        with pytest.raises(StorageError) as caught:
            attempt()
        assert "memory/users/local/memory.json" in caught.value.message
        assert "deerflow memory undo" in caught.value.cure
    assert undo_one(None) == 0
    assert "memory.json.damaged-" in capsys.readouterr().err
    assert show_found(None, "tea", 5, as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["id"] == "f1"


def test_in_a_process_of_its_own(desk: Desk) -> None:
    (desk.folder / "in.json").write_text('{"facts": [{"content": "Likes tea"}]}')
    assert desk.run("memory", "import", "in.json").code == 0
    shown = desk.run("memory", "show")
    assert (shown.code, "Likes tea" in shown.out) == (0, True)
    broken = desk.run("memory", "import", "-", stdin=b'{"facts": [')
    assert broken.code == 2
    assert broken.err.startswith("deerflow: The memory to import is no JSON")
    assert broken.err.count("\n") == 1
