"""Runs as clients see them: handed in, waited for, stopped, removed, each for its owner alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import BaseTool, StructuredTool

from deerflow.errors import ConflictError, NotFoundError, UsageError
from deerflow.runtime.request import RunRequest
from deerflow.runtime.submission import SubmitOptions
from fakes.opened import USER, opened_runtime

STORES: list[dict[str, Any]] = [{"backend": "memory"}, {"backend": "sqlite"}]


@pytest.fixture(params=STORES, ids=["memory", "sqlite"])
def database(request: pytest.FixtureRequest) -> dict[str, Any]:
    return request.param


class Gate:
    """A tool that waits until it is let go."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.open = asyncio.Event()
        self.done = 0

    def tools(self) -> list[BaseTool]:
        async def hold() -> str:
            """Wait."""
            self.entered.set()
            await self.open.wait()
            self.done += 1
            return "held"

        return [StructuredTool.from_function(coroutine=hold)]


HOLD = {"calls": [{"name": "hold", "args": {}}]}


async def test_a_run_is_accepted_and_ends(tmp_path: Path, database: dict[str, Any]) -> None:
    async with opened_runtime([{"text": "Four."}], tmp_path, database=database) as here:
        run = await here.finish("What is 2 + 2?", options={"metadata": {"a": 1}})
        assert (run.status, run.metadata) == ("success", {"a": 1})
        events = await here.log()
        assert [e.type for e in events][:2] == ["run_queued", "run_started"]
        assert events[0].payload["strategy"] == "reject"
        assert events[-1].type == "run_ended"
        assert await here.said() == ["What is 2 + 2?", "Four."]


async def test_a_client_can_have_a_run_without_questions(tmp_path: Path) -> None:
    async with opened_runtime([{"text": "a"}, {"text": "b"}], tmp_path) as here:
        await here.finish("1", context={"disable_clarification": True})
        await here.finish("2")
        model: Any = here.parts.catalog.get("scripted")
        offered = [set(asked.tool_names) for asked in model.inner.requests]
        assert offered[1] - offered[0] == {"ask_clarification"}
        assert offered[0] < offered[1]
        said = [str(asked.messages[0].content) for asked in model.inner.requests]
        assert ["ask_clarification" in text for text in said] == [False, True]


async def test_a_busy_thread_refuses(tmp_path: Path, database: dict[str, Any]) -> None:
    gate = Gate()
    script = [HOLD, {"text": "done"}]
    async with opened_runtime(script, tmp_path, tools=gate.tools(), database=database) as here:
        run = await here.submit("first")
        await gate.entered.wait()
        with pytest.raises(ConflictError):
            await here.submit("second")
        gate.open.set()
        assert (await here.runtime.submissions.wait(run.thread_key, run.run_id)).status == "success"


async def test_enqueued_runs_keep_their_order(tmp_path: Path, database: dict[str, Any]) -> None:
    gate = Gate()
    script = [HOLD, {"text": "one"}, {"text": "two"}, {"text": "three"}]
    async with opened_runtime(script, tmp_path, tools=gate.tools(), database=database) as here:
        first = await here.submit("1")
        await gate.entered.wait()
        later = [await here.submit(task, options={"strategy": "enqueue"}) for task in ("2", "3")]
        assert [run.status for run in later] == ["pending", "pending"]
        gate.open.set()
        for run in (first, *later):
            ended = await here.runtime.submissions.wait(run.thread_key, run.run_id)
            assert ended.status == "success"
        assert [text for text in await here.said() if text != "held"] == [
            "1", "", "one", "2", "two", "3", "three",
        ]  # fmt: skip


async def test_interrupt_ends_the_run_before(tmp_path: Path, database: dict[str, Any]) -> None:
    gate = Gate()
    script = [HOLD, {"text": "after"}]
    async with opened_runtime(script, tmp_path, tools=gate.tools(), database=database) as here:
        first = await here.submit("1")
        await gate.entered.wait()
        run = await here.finish("2", options={"strategy": "interrupt"})
        assert run.status == "success"
        before = await here.storage.threads.run(first.run_id)
        assert before is not None
        assert before.status == "cancelled"
        assert gate.done == 0
        said = await here.said()
    assert said[0] == "1"
    assert said[-2:] == ["2", "after"]


async def test_rollback_leaves_nothing_of_the_run_before(
    tmp_path: Path, database: dict[str, Any]
) -> None:
    gate = Gate()
    script = [{"text": "kept"}, HOLD, {"text": "after"}]
    async with opened_runtime(script, tmp_path, tools=gate.tools(), database=database) as here:
        await here.finish("0")
        first = await here.submit("1")
        await gate.entered.wait()
        run = await here.finish("2", options={"strategy": "rollback"})
        assert run.status == "success"
        assert await here.storage.threads.run(first.run_id) is None
        assert await here.said() == ["0", "kept", "2", "after"]
        assert first.run_id not in {e.run_id for e in await here.log()}


async def test_rollback_takes_the_place_of_a_run_that_waits(
    tmp_path: Path, database: dict[str, Any]
) -> None:
    gate = Gate()
    script = [HOLD, {"text": "after"}]
    async with opened_runtime(script, tmp_path, tools=gate.tools(), database=database) as here:
        waits = await here.submit("1", options={"after_seconds": 3600.0})
        async with asyncio.timeout(1.5):  # nobody has to find it first
            run = await here.submit("2", options={"strategy": "rollback"})
            await gate.entered.wait()
        gate.open.set()
        await here.runtime.submissions.wait(run.thread_key, run.run_id)
        assert await here.storage.threads.run(waits.run_id) is None
        assert await here.said() == ["2", "", "held", "after"]


async def test_cancel_by_rollback_takes_the_run_back(
    tmp_path: Path, database: dict[str, Any]
) -> None:
    gate = Gate()
    script = [{"text": "kept"}, HOLD, {"text": "after"}]
    async with opened_runtime(script, tmp_path, tools=gate.tools(), database=database) as here:
        subs = here.runtime.submissions
        await here.finish("0")
        run = await here.submit("1")
        await gate.entered.wait()
        async with asyncio.timeout(2):
            await subs.cancel(USER, "t", run.run_id, "rollback", wait=True)
        with pytest.raises(NotFoundError):
            await subs.run(USER, "t", run.run_id)
        assert await here.said() == ["0", "kept"]
        assert (await here.thread()).status == "idle"


async def test_a_run_before_the_first_one_rolled_back_leaves_an_empty_thread(
    tmp_path: Path, database: dict[str, Any]
) -> None:
    gate = Gate()
    script = [HOLD, {"text": "again"}]
    async with opened_runtime(script, tmp_path, tools=gate.tools(), database=database) as here:
        run = await here.submit("1")
        await gate.entered.wait()
        await here.runtime.submissions.cancel(USER, "t", run.run_id, "rollback", wait=True)
        assert await here.said() == []
        assert (await here.finish("2")).status == "success"
        assert await here.said() == ["2", "again"]


async def test_cancel_and_wait(tmp_path: Path, database: dict[str, Any]) -> None:
    gate = Gate()
    async with opened_runtime([HOLD], tmp_path, tools=gate.tools(), database=database) as here:
        subs = here.runtime.submissions
        run = await here.submit("1")
        await gate.entered.wait()
        async with asyncio.timeout(2):
            ended = await subs.cancel(USER, "t", run.run_id, wait=True)
        assert ended.status == "cancelled"
        with pytest.raises(ConflictError, match="is not cancellable"):
            await subs.cancel(USER, "t", run.run_id)


async def test_what_waits_is_cancelled_at_once(tmp_path: Path, database: dict[str, Any]) -> None:
    async with opened_runtime([], tmp_path, database=database) as here:
        subs = here.runtime.submissions
        run = await here.submit("1", options={"after_seconds": 3600})
        assert run.not_before is not None
        assert [r.status for r in await subs.runs(USER, "t", status="pending")] == ["pending"]
        assert (await subs.cancel(USER, "t", run.run_id)).status == "cancelled"
        assert (await here.log())[-1].type == "run_ended"


async def test_the_same_key_gives_the_same_run(tmp_path: Path, database: dict[str, Any]) -> None:
    async with opened_runtime([{"text": "once"}], tmp_path, database=database) as here:
        options = {"idempotency_key": "k"}
        one = await here.finish("1", options=options)
        two = await here.finish("1", options=options)
        assert one.run_id == two.run_id
        assert await here.said() == ["1", "once"]


async def test_other_peoples_ids_answer_like_random_ones(
    tmp_path: Path, database: dict[str, Any]
) -> None:
    async with opened_runtime([{"text": "secret"}], tmp_path, database=database) as here:
        subs = here.runtime.submissions
        run = await here.finish("1")
        texts: list[str] = []
        for thread_id, run_id in (("t", run.run_id), ("nowhere", run.run_id)):
            with pytest.raises(NotFoundError) as caught:
                await subs.run("ben", thread_id, run_id)
            texts.append(str(caught.value))
        assert len(set(texts)) == 1
        for call in (
            subs.find("ben", run.run_id),
            subs.cancel("ben", "t", run.run_id),
            subs.delete_run("ben", "t", run.run_id),
            subs.delete_thread("ben", "t"),
            subs.runs("ben", "t"),
        ):
            with pytest.raises(NotFoundError):
                await call
        assert (await subs.find(USER, run.run_id))[1].run_id == run.run_id


async def test_options_that_cannot_be_met_are_refused(tmp_path: Path) -> None:
    async with opened_runtime([], tmp_path) as here:
        bad: list[dict[str, Any]] = [
            {"after_seconds": -1},
            {"after_seconds": float("nan")},
            {"after_seconds": 1e12},
            {"idempotency_key": ""},
            {"idempotency_key": "x" * 300},
            {"webhook": "ftp://example.org"},
            {"webhook": "nonsense"},
        ]
        for options in bad:
            with pytest.raises(UsageError):
                await here.submit("1", options=options)
        with pytest.raises(NotFoundError):
            await here.submit("1", options={"if_not_exists": "reject"})
        with pytest.raises(NotFoundError):
            await here.submit("1", model="unknown")
        with pytest.raises(NotFoundError):
            await here.submit("1", agent_name="unknown")
        assert await here.storage.threads.get(USER, "t") is None


async def test_several_runs_are_handed_in_at_once(tmp_path: Path) -> None:
    async with opened_runtime([{"text": "a"}, {"text": "b"}], tmp_path) as here:
        made = await here.runtime.submissions.submit_all(
            [
                (RunRequest(task=str(n), thread_id=f"t{n}", user_id=USER), SubmitOptions())
                for n in range(2)
            ]
        )
        for each in made:
            await here.runtime.submissions.wait(each.run.thread_key, each.run.run_id)
        assert {t.thread_id for t in await here.storage.threads.list(USER)} == {"t0", "t1"}


async def test_all_runs_of_a_user_are_stopped(tmp_path: Path, database: dict[str, Any]) -> None:
    gate = Gate()
    async with opened_runtime([HOLD], tmp_path, tools=gate.tools(), database=database) as here:
        subs = here.runtime.submissions
        running = await here.submit("1")
        await gate.entered.wait()
        waiting = await here.submit("2", options={"strategy": "enqueue"})
        elsewhere = await here.submit("3", "other", options={"after_seconds": 99})
        stopped = await subs.cancel_all(USER, thread_id="t", statuses=("pending",))
        assert [run.run_id for run in stopped] == [waiting.run_id]
        stopped = await subs.cancel_all(USER)
        assert {run.run_id for run in stopped} == {running.run_id, elsewhere.run_id}
        ended = await subs.wait(running.thread_key, running.run_id)
        assert ended.status == "cancelled"
        assert await subs.cancel_all(USER) == []


async def test_a_run_is_deleted_when_it_has_ended(tmp_path: Path, database: dict[str, Any]) -> None:
    gate = Gate()
    script = [HOLD, {"text": "done"}]
    async with opened_runtime(script, tmp_path, tools=gate.tools(), database=database) as here:
        subs = here.runtime.submissions
        run = await here.submit("1")
        await gate.entered.wait()
        with pytest.raises(ConflictError):
            await subs.delete_run(USER, "t", run.run_id)
        gate.open.set()
        await subs.wait(run.thread_key, run.run_id)
        await subs.delete_run(USER, "t", run.run_id)
        assert await subs.runs(USER, "t") == []
        assert (await here.said())[-1] == "done"


async def test_deleting_a_thread_stops_its_run_first(
    tmp_path: Path, database: dict[str, Any]
) -> None:
    gate = Gate()
    async with opened_runtime([HOLD], tmp_path, tools=gate.tools(), database=database) as here:
        subs = here.runtime.submissions
        run = await here.submit("1")
        await gate.entered.wait()
        await here.submit("2", options={"strategy": "enqueue"})
        root = here.parts.folders(USER, run.thread_key).root
        root.mkdir(parents=True)
        (root / "file").write_text("x")
        async with asyncio.timeout(4):
            await subs.delete_thread(USER, "t")
        assert not root.exists()
        with pytest.raises(NotFoundError):
            await subs.delete_thread(USER, "t")
        with pytest.raises(NotFoundError):
            await subs.wait(run.thread_key, run.run_id)
    assert gate.done == 0


async def test_many_wait_for_one_run(tmp_path: Path, database: dict[str, Any]) -> None:
    gate = Gate()
    script = [HOLD, {"text": "done"}]
    async with opened_runtime(script, tmp_path, tools=gate.tools(), database=database) as here:
        run = await here.submit("1")
        subs = here.runtime.submissions
        waits = [asyncio.create_task(subs.wait(run.thread_key, run.run_id)) for _ in range(5)]
        await gate.entered.wait()
        gate.open.set()
        assert {row.status for row in await asyncio.gather(*waits)} == {"success"}


async def test_nobody_executes_in_a_process_of_the_api_alone(tmp_path: Path) -> None:
    async with opened_runtime([], tmp_path, execute=False) as here:
        run = await here.submit("1")
        assert (await here.storage.threads.run(run.run_id)) == run
        assert run.status == "pending"
