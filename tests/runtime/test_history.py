"""States of threads: what clients read of them, and what they may write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deerflow.errors import ConflictError, NotFoundError, UsageError
from deerflow.runtime.goals import SessionGoal
from deerflow.runtime.history import PUBLIC
from fakes.approving import ASK, Desk, call, guarded
from fakes.opened import Service, opened_runtime

STORES: list[dict[str, Any]] = [{"backend": "memory"}, {"backend": "sqlite"}]


@pytest.fixture(params=STORES, ids=["memory", "sqlite"])
def database(request: pytest.FixtureRequest) -> dict[str, Any]:
    return request.param


def texts(found: Any) -> list[str]:
    return [str(m.text) for m in found.values["messages"]]


async def test_a_thread_without_a_state_has_none(tmp_path: Path, database: dict[str, Any]) -> None:
    async with opened_runtime([], tmp_path, database=database) as here:
        thread = await here.storage.threads.ensure("anna", "t")
        assert await here.runtime.histories.state(thread) is None
        assert await here.runtime.histories.history(thread) == []


async def test_states_come_newest_first(tmp_path: Path, database: dict[str, Any]) -> None:
    async with opened_runtime([{"text": "a"}, {"text": "b"}], tmp_path, database=database) as here:
        await here.finish("1")
        run = await here.finish("2")
        histories, thread = here.runtime.histories, await here.thread()
        found = await histories.history(thread, limit=100)
        assert texts(found[0]) == ["1", "a", "2", "b"]
        assert (found[0].next, found[0].tasks) == ((), ())
        assert found[0].metadata["run_id"] == run.run_id
        assert [s.created_at for s in found] == sorted((s.created_at for s in found), reverse=True)
        for newer, older in zip(found, found[1:], strict=False):
            assert newer.parent_checkpoint_id == older.checkpoint_id
        assert all(set(s.values) <= set(PUBLIC) for s in found)
        older = await histories.history(thread, limit=100, before=found[1].checkpoint_id)
        assert [s.checkpoint_id for s in older] == [s.checkpoint_id for s in found[2:]]
        inputs = await histories.history(thread, limit=100, metadata={"source": "input"})
        assert len(inputs) == 2
        again = await histories.state(thread, found[3].checkpoint_id)
        assert again is not None
        assert texts(again) == texts(found[3])


async def test_what_is_no_checkpoint_is_not_found(tmp_path: Path, database: dict[str, Any]) -> None:
    async with opened_runtime([{"text": "a"}], tmp_path, database=database) as here:
        await here.finish("1")
        histories, thread = here.runtime.histories, await here.thread()
        for name in ("nonsense", "", "1f1ecdca-b2e9-6396-8004-7e996caf22a4"):
            with pytest.raises(NotFoundError):
                await histories.state(thread, name)
        with pytest.raises(NotFoundError):
            await histories.history(thread, before="nonsense")
        for limit in (0, 10_000):
            with pytest.raises(UsageError):
                await histories.history(thread, limit=limit)


async def test_a_thread_is_renamed(tmp_path: Path, database: dict[str, Any]) -> None:
    async with opened_runtime([{"text": "a"}, {"text": "b"}], tmp_path, database=database) as here:
        await here.finish("1")
        histories = here.runtime.histories
        found = await histories.update(await here.thread(), {"title": "  My\n title "})
        assert found.values["title"] == "My title"
        assert (await here.log())[-1].payload == {"title": "My title"}
        await here.finish("2")
        state = await histories.state(await here.thread())
        assert state is not None
        assert (state.values["title"], texts(state)) == ("My title", ["1", "a", "2", "b"])


async def test_messages_are_written_and_the_turn_stays_ended(
    tmp_path: Path, database: dict[str, Any]
) -> None:
    async with opened_runtime([{"text": "a"}, {"text": "b"}], tmp_path, database=database) as here:
        await here.finish("1")
        histories = here.runtime.histories
        added = [{"role": "user", "content": "more"}, {"type": "ai", "content": "yes", "id": "x"}]
        found = await histories.update(await here.thread(), {"messages": added})
        assert (texts(found), found.next) == (["1", "a", "more", "yes"], ())
        assert [e.payload["message"]["content"] for e in (await here.log())[-2:]] == ["more", "yes"]
        changed = {"messages": {"type": "ai", "content": "no", "id": "x"}}
        found = await histories.update(await here.thread(), changed)
        assert texts(found)[-1] == "no"
        await here.finish("2")
        assert (await here.said())[-2:] == ["2", "b"]


async def test_an_update_goes_on_from_an_earlier_state(
    tmp_path: Path, database: dict[str, Any]
) -> None:
    async with opened_runtime([{"text": "a"}, {"text": "b"}], tmp_path, database=database) as here:
        await here.finish("1")
        histories = here.runtime.histories
        first = await histories.state(await here.thread())
        assert first is not None
        await here.finish("2")
        found = await histories.update(
            await here.thread(),
            {"messages": [{"role": "user", "content": "other"}]},
            checkpoint_id=first.checkpoint_id,
        )
        assert texts(found) == ["1", "a", "other"]
        with pytest.raises(NotFoundError):
            await histories.update(
                await here.thread(),
                {"todos": []},
                checkpoint_id="1f1ecdca-b2e9-6396-8004-7e996caf22a4",
            )


BAD: list[dict[str, Any]] = [
    {"compaction": None},
    {"sandbox": {}},
    {"title": ""},
    {"title": 5},
    {"title": "x" * 300},
    {"messages": [5]},
    {"messages": [{"role": "nobody", "content": "x"}]},
    {"messages": [{"role": "tool", "content": "x"}]},
    {"artifacts": ["/etc/passwd"]},
    {"artifacts": "x"},
    {"todos": [{"content": "x", "status": "soon"}]},
    {"todos": {}},
]


@pytest.mark.parametrize("values", BAD, ids=str)
async def test_what_cannot_be_written_is_refused(tmp_path: Path, values: dict[str, Any]) -> None:
    async with opened_runtime([{"text": "a"}], tmp_path) as here:
        await here.finish("1")
        with pytest.raises(UsageError):
            await here.runtime.histories.update(await here.thread(), values)
        with pytest.raises(UsageError):
            await here.runtime.histories.update(await here.thread(), {}, as_node="nobody")
        assert await here.said() == ["1", "a"]


async def test_a_thread_that_waits_for_a_human_is_left_alone(tmp_path: Path) -> None:
    desk = Desk()
    script = [{"calls": [call("delete", what="x")]}, {"text": "done"}]
    async with opened_runtime(
        script, tmp_path, tools=desk.tools(), guardrails=guarded(ASK)
    ) as here:
        assert (await here.finish("1")).status == "interrupted"
        state = await here.runtime.histories.state(await here.thread())
        assert state is not None
        assert state.next == ("tools",)
        assert state.interrupts[0]["value"]["tool"] == "delete"
        assert state.tasks[0]["interrupts"] == list(state.interrupts)
        with pytest.raises(ConflictError):
            await here.runtime.histories.update(await here.thread(), {"todos": []})


async def test_todos_and_artifacts_are_written(tmp_path: Path, database: dict[str, Any]) -> None:
    async with opened_runtime([{"text": "a"}], tmp_path, database=database) as here:
        await here.finish("1")
        todos = [{"content": "x", "status": "pending"}]
        paths = ["/mnt/user-data/outputs/a.md"]
        values = {"todos": todos, "artifacts": paths}
        found = await here.runtime.histories.update(await here.thread(), values)
        assert (found.values["todos"], found.values["artifacts"]) == (todos, paths)
        assert {e.type for e in (await here.log())[-2:]} == {"todos", "artifacts"}


async def goal_of(here: Service) -> dict[str, Any] | None:
    return await here.runtime.histories.goal(await here.thread())


async def test_the_goal_is_set_and_cleared(tmp_path: Path, database: dict[str, Any]) -> None:
    verdict = {"text": '{"verdict": "done", "reason": "all there"}'}
    async with opened_runtime([{"text": "a"}, verdict], tmp_path, database=database) as here:
        thread = await here.storage.threads.ensure("anna", "t")
        histories = here.runtime.histories
        assert await goal_of(here) is None
        await histories.clear_goal(thread)
        goal = await histories.set_goal(thread, SessionGoal("Write it"))
        assert (goal["status"], await goal_of(here)) == ("active", goal)
        await here.finish("1")
        found = await goal_of(here)
        assert found is not None
        assert found["status"] == "done"
        await histories.clear_goal(await here.thread())
        assert await goal_of(here) is None
        assert (await here.log())[-1].payload["status"] == "cleared"


async def test_a_run_goes_on_from_an_earlier_state(
    tmp_path: Path, database: dict[str, Any]
) -> None:
    script = [{"text": "a"}, {"text": "b"}, {"text": "c"}]
    async with opened_runtime(script, tmp_path, database=database) as here:
        await here.finish("1")
        first = await here.runtime.histories.state(await here.thread())
        assert first is not None
        await here.finish("2")
        run = await here.finish("3", checkpoint_id=first.checkpoint_id)
        assert run.status == "success"
        assert await here.said() == ["1", "a", "3", "c"]
        spoken = [e.payload["message"]["content"] for e in await here.log() if e.type == "message"]
        assert spoken == ["1", "a", "2", "b", "3", "c"]
