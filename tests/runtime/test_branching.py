"""Turns run again, edited, branched and copied: the past stays as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deerflow.errors import ConflictError, NotFoundError, UsageError
from deerflow.runtime.branching import Rerun
from deerflow.runtime.request import RunRequest
from deerflow.runtime.wire_runs import ClientRun, request_of
from deerflow.storage.protocol import ThreadRow
from fakes.approving import ASK, Desk, call, guarded
from fakes.gates import Gate
from fakes.opened import USER, Service, opened_runtime

STORES: list[dict[str, Any]] = [{"backend": "memory"}, {"backend": "sqlite"}]


@pytest.fixture(params=STORES, ids=["memory", "sqlite"])
def database(request: pytest.FixtureRequest) -> dict[str, Any]:
    return request.param


def spoken(*texts: str) -> list[dict[str, Any]]:
    return [{"text": text} for text in texts]


async def ids(here: Service, thread_id: str = "t") -> list[str]:
    found = await here.runtime.histories.state(await here.thread(thread_id))
    return [m.id for m in found.values["messages"]] if found is not None else []


async def rerun(here: Service, prepared: Rerun, thread_id: str = "t") -> None:
    """What a client does with it: a run with this input, checkpoint and metadata."""
    sent = ClientRun(input=prepared.input, checkpoint=prepared.checkpoint)
    request: RunRequest = request_of(
        sent, user_id=USER, thread_id=thread_id, config=here.parts.config
    )
    submitted = await here.runtime.submissions.submit(request)
    run = await here.runtime.submissions.wait(submitted.run.thread_key, submitted.run.run_id)
    assert run.status == "success"


async def test_the_latest_turn_is_answered_again(tmp_path: Path, database: dict[str, Any]) -> None:
    async with opened_runtime(spoken("a", "b", "c", "d"), tmp_path, database=database) as here:
        await here.finish("1")
        run = await here.finish("2")
        prepared = await here.branches.regenerate(await here.thread(), (await ids(here))[-1])
        assert prepared.target_run_id == run.run_id
        assert prepared.metadata["regenerate_from_run_id"] == run.run_id
        assert list(prepared.source_message_ids) == (await ids(here))[2:]
        await rerun(here, prepared)
        assert await here.said() == ["1", "a", "2", "c"]
        prepared = await here.branches.regenerate(await here.thread(), (await ids(here))[-1])
        await rerun(here, prepared)
        assert await here.said() == ["1", "a", "2", "d"]


async def test_the_first_turn_is_answered_again(tmp_path: Path, database: dict[str, Any]) -> None:
    async with opened_runtime(spoken("a", "b", "c"), tmp_path, database=database) as here:
        await here.finish("1")
        for answer in ("b", "c"):
            prepared = await here.branches.regenerate(await here.thread(), (await ids(here))[-1])
            await rerun(here, prepared)
            assert await here.said() == ["1", answer]


async def test_the_users_words_are_edited(tmp_path: Path, database: dict[str, Any]) -> None:
    async with opened_runtime(spoken("a", "b", "c"), tmp_path, database=database) as here:
        await here.finish("1")
        parts = [
            {"type": "text", "text": "2"},
            {"type": "image_url", "image_url": {"url": "data:,"}},
        ]
        message = {"content": parts, "additional_kwargs": {"files": [{"filename": "f"}]}}
        await here.finish("2", message=message)
        asked = (await ids(here))[2]
        prepared = await here.branches.edit(await here.thread(), f"{asked}__user", "two")
        (sent,) = prepared.input["messages"]
        assert sent["content"] == [{"type": "text", "text": "two"}, parts[1]]
        assert sent["additional_kwargs"] == {"files": [{"filename": "f"}]}
        assert sent["id"] == prepared.replacement_id
        await rerun(here, prepared)
        assert await here.said() == ["1", "a", "two", "c"]
        again = await here.branches.edit(await here.thread(), prepared.replacement_id, "zwei")
        assert again.input["messages"][0]["content"][0]["text"] == "zwei"


async def test_what_cannot_be_run_again_is_refused(
    tmp_path: Path, database: dict[str, Any]
) -> None:
    async with opened_runtime(spoken("a", "b"), tmp_path, database=database) as here:
        await here.finish("1")
        await here.finish("2")
        thread, names = await here.thread(), await ids(here)
        with pytest.raises(ConflictError):
            await here.branches.regenerate(thread, names[1])
        with pytest.raises(NotFoundError):
            await here.branches.regenerate(thread, "unknown")
        with pytest.raises(UsageError):
            await here.branches.edit(thread, names[3], "text")
        with pytest.raises(UsageError):
            await here.branches.edit(thread, names[2], "  ")
        empty = await here.storage.threads.ensure(USER, "empty")
        with pytest.raises(NotFoundError):
            await here.branches.regenerate(empty, names[1])


async def test_a_branch_goes_on_from_an_earlier_turn(
    tmp_path: Path, database: dict[str, Any]
) -> None:
    async with opened_runtime(spoken("a", "b", "c", "d", "e"), tmp_path, database=database) as here:
        await here.finish("1")
        await here.finish("2")
        await here.finish("3")
        thread, names = await here.thread(), await ids(here)
        root = here.parts.folders(USER, thread.thread_key).root
        (root / "outputs").mkdir(parents=True)
        (root / "outputs" / "a.md").write_text("text")
        sha = await here.storage.blobs.put(USER, thread.thread_key, b"bytes", "text/plain")
        made = await here.branches.branch(thread, names[3], title="Other", metadata={"k": 1})
        assert (made.title, made.user_id) == ("Other", USER)
        assert made.metadata == {"k": 1, "parent_thread_id": "t"}
        assert await here.said(made.thread_id) == ["1", "a", "2", "b"]
        copy = here.parts.folders(USER, made.thread_key).root
        assert (copy / "outputs" / "a.md").read_text() == "text"
        log = await here.log(made.thread_id)
        assert [e.seq for e in log] == list(range(1, len(log) + 1))
        assert log[-1].type == "run_ended"
        whole = await here.log()
        assert log == [
            type(e)(e.seq, e.type, e.run_id, made.thread_id, e.created_at, e.payload)
            for e in whole[: len(log)]
        ]
        await here.finish("other", made.thread_id)
        assert await here.said(made.thread_id) == ["1", "a", "2", "b", "other", "d"]
        assert await here.said() == ["1", "a", "2", "b", "3", "c"]
        again = await here.branches.regenerate(
            await here.thread(made.thread_id), (await ids(here, made.thread_id))[-1]
        )
        await rerun(here, again, made.thread_id)
        assert (await here.said(made.thread_id))[-2:] == ["other", "e"]
        await here.runtime.submissions.delete_thread(USER, "t")
        assert await here.storage.blobs.get(USER, sha) == (b"bytes", "text/plain")
        assert (await here.said(made.thread_id))[-2:] == ["other", "e"]
        await here.runtime.submissions.delete_thread(USER, made.thread_id)
        assert await here.storage.blobs.get(USER, sha) is None


async def test_a_branch_of_a_branched_turn_keeps_its_way(
    tmp_path: Path, database: dict[str, Any]
) -> None:
    async with opened_runtime(spoken("a", "b", "c", "d"), tmp_path, database=database) as here:
        await here.finish("1")
        first = await here.runtime.histories.state(await here.thread())
        assert first is not None
        await here.finish("2")
        await here.finish("3", checkpoint_id=first.checkpoint_id)
        names = await ids(here)
        made = await here.branches.branch(await here.thread(), names[1])
        assert await here.said(made.thread_id) == ["1", "a"]
        made = await here.branches.branch(await here.thread(), names[-1])
        assert await here.said(made.thread_id) == ["1", "a", "3", "c"]


async def test_a_copy_is_a_thread_of_its_own(tmp_path: Path, database: dict[str, Any]) -> None:
    async with opened_runtime(spoken("a", "b"), tmp_path, database=database) as here:
        await here.finish("1")
        await here.storage.threads.describe((await here.thread()).thread_key, {"k": 1})
        made = await here.branches.copy(await here.thread(), "copy")
        assert (made.thread_id, made.metadata) == ("copy", {"k": 1})
        assert made.last_seq == (await here.thread()).last_seq
        with pytest.raises(ConflictError):
            await here.branches.copy(await here.thread(), "copy")
        await here.finish("2", "copy")
        assert await here.said("copy") == ["1", "a", "2", "b"]
        assert await here.said() == ["1", "a"]
        assert await here.branches.copy(await here.storage.threads.ensure(USER, "bare"), "bare2")


@pytest.mark.parametrize("service", [True, False])
async def test_a_copy_without_events_has_its_open_turn_taken_up(
    tmp_path: Path, database: dict[str, Any], service: bool
) -> None:
    gate = Gate()
    script = [{"calls": [{"name": "hold"}]}, {"text": "b"}]
    async with opened_runtime(script, tmp_path, tools=[gate.tool()], database=database) as here:
        run = await here.submit("1")
        await gate.reached(1)
        await here.runtime.submissions.cancel(USER, "t", run.run_id, wait=True)
        copy = ThreadRow.new(USER, "copy")
        assert await here.storage.threads.copy(run.thread_key, copy, seq=0) is not None
        assert (await here.thread("copy")).last_seq == 0

        if service:
            await here.finish("2", "copy")
        else:
            request = RunRequest(task="2", thread_id="copy", user_id=USER)
            await (await here.runtime.harness.runs.start(request)).result()
        asked, call, answer, *rest = await here.said("copy")
        assert (asked, call, rest) == ("1", "", ["2", "b"])
        assert answer  # the call has its result, so the history is legal


async def test_a_thread_at_work_is_not_copied(tmp_path: Path) -> None:
    desk = Desk()
    script = [{"calls": [call("delete", what="x")]}]
    async with opened_runtime(
        script, tmp_path, tools=desk.tools(), guardrails=guarded(ASK)
    ) as here:
        await here.finish("1")
        thread, names = await here.thread(), await ids(here)
        with pytest.raises(ConflictError):
            await here.branches.copy(thread)
        with pytest.raises(ConflictError):
            await here.branches.branch(thread, names[-1])
        assert len(await here.storage.threads.list(USER)) == 1


async def test_pruned_threads_keep_their_newest_state(
    tmp_path: Path, database: dict[str, Any]
) -> None:
    async with opened_runtime(spoken("a", "b", "c"), tmp_path, database=database) as here:
        await here.finish("1")
        await here.finish("2")
        before = await here.runtime.histories.history(await here.thread(), limit=100)
        assert await here.branches.prune([await here.thread()]) == 1
        after = await here.runtime.histories.history(await here.thread(), limit=100)
        assert len(after) <= len(before)
        assert await here.said() == ["1", "a", "2", "b"]
        await here.finish("3")
        assert await here.said() == ["1", "a", "2", "b", "3", "c"]
