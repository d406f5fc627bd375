"""Conversions wait on the disk, survive processes, and tell what became of them."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
import pytest

from deerflow.gateway.documents.conversions import TRIES, Conversion, Conversions
from deerflow.sandbox.protocol import ThreadFolders
from deerflow.storage.protocol import ThreadRow
from fakes.gateway import until
from fakes.papers import pdf

THREAD = ThreadRow.new("user", "thread")


def folders_below(home: Path, user_id: str, thread_key: str) -> ThreadFolders:
    return ThreadFolders(home / user_id / thread_key / "user-data")


@pytest.fixture
def uploads(tmp_path: Path) -> Path:
    folder = folders_below(tmp_path, THREAD.user_id, THREAD.thread_key).uploads
    folder.mkdir(parents=True)
    return folder


def opened(home: Path) -> Conversions:
    return Conversions(home, lambda user, key: folders_below(home, user, key))


@asynccontextmanager
async def running(conversions: Conversions) -> AsyncGenerator[None]:
    task = asyncio.create_task(conversions.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def settled(conversions: Conversions, count: int = 1) -> dict[str, Conversion]:
    async with asyncio.timeout(30):
        while True:
            found = await conversions.of(THREAD)
            if len(found) >= count and all(each.state != "pending" for each in found.values()):
                return found
            await asyncio.sleep(0.02)


async def test_documents_are_converted_and_others_left_alone(tmp_path: Path, uploads: Path) -> None:
    conversions = opened(tmp_path)
    (uploads / "報告.pdf").write_bytes(pdf("Hello"))
    (uploads / "bad.pdf").write_bytes(b"nonsense")
    (uploads / "notes.txt").write_text("x")
    async with running(conversions):
        await conversions.submit(THREAD, ["報告.pdf", "notes.txt", "bad.pdf"], "auto")
        found = await settled(conversions, 2)
    assert (found["報告.pdf"].state, found["報告.pdf"].markdown) == ("done", "報告.md")
    assert (found["bad.pdf"].state, "damaged" in found["bad.pdf"].error) == ("failed", True)
    assert sorted(found) == ["bad.pdf", "報告.pdf"]
    assert "Hello" in (uploads / "報告.md").read_text(encoding="utf-8")
    assert os.listdir(tmp_path / "documents") == []


async def test_the_users_own_markdown_is_not_overwritten(tmp_path: Path, uploads: Path) -> None:
    conversions = opened(tmp_path)
    (uploads / "a.pdf").write_bytes(pdf("Hello"))
    (uploads / "a.md").write_text("mine")
    async with running(conversions):
        await conversions.submit(THREAD, ["a.pdf"], "auto")
        found = await settled(conversions)
    assert found["a.pdf"].markdown == "a-2.md"
    assert (uploads / "a.md").read_text(encoding="utf-8") == "mine"


async def test_the_next_process_takes_up_what_waits(tmp_path: Path, uploads: Path) -> None:
    (uploads / "a.pdf").write_bytes(pdf("Hello"))
    first = opened(tmp_path)
    await first.submit(THREAD, ["a.pdf"], "auto")
    assert (await first.of(THREAD))["a.pdf"].state == "pending"
    second = opened(tmp_path)
    async with running(second):
        assert (await settled(second))["a.pdf"].state == "done"


async def test_what_another_process_works_on_is_left_to_it(tmp_path: Path, uploads: Path) -> None:
    (uploads / "a.pdf").write_bytes(pdf("Hello"))
    conversions = opened(tmp_path)
    await conversions.submit(THREAD, ["a.pdf"], "auto")
    name = os.listdir(tmp_path / "documents")[0]
    with (tmp_path / "documents" / name).open("rb") as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        assert conversions._claim() is None
    claim = conversions._claim()
    assert claim is not None
    os.close(claim.lock)


async def test_a_document_that_ends_its_process_every_time_is_given_up(
    tmp_path: Path, uploads: Path
) -> None:
    (uploads / "a.pdf").write_bytes(pdf("Hello"))
    conversions = opened(tmp_path)
    await conversions.submit(THREAD, ["a.pdf"], "auto")
    for _ in range(TRIES):
        claim = conversions._claim()
        assert claim is not None
        os.close(claim.lock)  # as a kill does
    async with running(conversions):
        found = await settled(conversions)
    assert (found["a.pdf"].state, "several times" in found["a.pdf"].error) == ("failed", True)


async def test_a_job_that_a_kill_has_cut_harms_nobody(tmp_path: Path, uploads: Path) -> None:
    (tmp_path / "documents").mkdir()
    for number, text in enumerate([b"", b'{"user_id":', orjson.dumps({"name": "a"}), b"[]"]):
        (tmp_path / "documents" / f"{number}.json").write_bytes(text)
    (uploads / "a.pdf").write_bytes(pdf("Hello"))
    conversions = opened(tmp_path)
    async with running(conversions):
        await conversions.submit(THREAD, ["a.pdf"], "auto")
        assert (await settled(conversions))["a.pdf"].state == "done"
    assert os.listdir(tmp_path / "documents") == []


async def test_a_thread_that_is_gone_is_not_made_again(tmp_path: Path, uploads: Path) -> None:
    (uploads / "a.pdf").write_bytes(pdf("Hello"))
    conversions = opened(tmp_path)
    await conversions.submit(THREAD, ["a.pdf"], "auto")
    root = uploads.parent.parent
    root.rename(tmp_path / "elsewhere")
    async with running(conversions):
        await until(lambda: not os.listdir(tmp_path / "documents"))
    assert not root.exists()


async def test_a_link_in_the_place_of_the_document_is_not_followed(
    tmp_path: Path, uploads: Path
) -> None:
    (tmp_path / "secret.pdf").write_bytes(pdf("of the host"))
    (uploads / "a.pdf").symlink_to(tmp_path / "secret.pdf")
    conversions = opened(tmp_path)
    async with running(conversions):
        await conversions.submit(THREAD, ["a.pdf"], "auto")
        found = await settled(conversions)
    assert found["a.pdf"].state == "failed"
    assert str(tmp_path) not in found["a.pdf"].error
