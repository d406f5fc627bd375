"""Decisions from any process: the run goes on with the last one; questions are answered too."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deerflow.errors import ConflictError, NotFoundError, UsageError
from deerflow.runtime.answering import decision_of, words_of
from deerflow.runtime.request import RunRequest
from deerflow.storage.protocol import ApprovalRow, Decision, RunRow
from fakes.approving import ASK, Desk, call, guarded
from fakes.gates import Gate
from fakes.opened import USER, Service, opened_runtime

STORES: list[dict[str, Any]] = [{"backend": "memory"}, {"backend": "sqlite"}]
TWO = [
    {"calls": [call("delete", what="x"), call("delete", what="y"), call("look", what="z")]},
    {"text": "done"},
]


@pytest.fixture(params=STORES, ids=["memory", "sqlite"])
def database(request: pytest.FixtureRequest) -> dict[str, Any]:
    return request.param


async def waiting(here: Service, status: Any = "pending") -> list[ApprovalRow]:
    key = (await here.thread()).thread_key
    return await here.storage.approvals.list(USER, thread_key=key, status=status)


async def resume(here: Service, answer: Any) -> RunRow:
    request = RunRequest(thread_id="t", user_id=USER)
    submitted = await here.runtime.submissions.resume(request, answer)
    run = submitted.run
    return await here.runtime.submissions.wait(run.thread_key, run.run_id)


async def test_the_last_decision_lets_the_run_go_on(
    tmp_path: Path, database: dict[str, Any]
) -> None:
    desk = Desk()
    rules = guarded(ASK)
    async with opened_runtime(
        TWO, tmp_path, tools=desk.tools(), guardrails=rules, database=database
    ) as here:
        subs = here.runtime.submissions
        run = await here.finish("1")
        assert run.status == "interrupted"
        one, two = await waiting(here)
        await subs.decide(USER, one.approval_id, Decision("approved", USER, time.time()))
        assert (await here.storage.threads.run(run.run_id)) == run
        with pytest.raises(NotFoundError):
            await subs.decide("ben", two.approval_id, Decision("approved", "ben", time.time()))
        no = Decision("rejected", USER, time.time(), note="not that")
        row = await subs.decide(USER, two.approval_id, no)
        assert row.status == "rejected"
        ended = await subs.wait(run.thread_key, run.run_id)
        assert (ended.status, ended.attempt) == ("success", 2)
        assert sorted(desk.done) == ["delete x", "look z"]
        late = await subs.decide(USER, two.approval_id, Decision("approved", USER, time.time()))
        assert late.status == "rejected"
        assert (await here.said())[-1] == "done"


ANSWERS: list[tuple[Any, list[str]]] = [
    (True, ["delete x", "delete y"]),
    ("approve", ["delete x", "delete y"]),
    ({"approved": True}, ["delete x", "delete y"]),
    (False, []),
    ("I do not want that", []),
    ([True, False], ["delete x"]),
    ({"decisions": [{"type": "reject", "message": "no"}, {"type": "approve"}]}, ["delete y"]),
    (
        [{"type": "edit", "edited_action": {"name": "delete", "args": {"what": "q"}}}, False],
        ["delete q"],
    ),
]


@pytest.mark.parametrize(("answer", "done"), ANSWERS, ids=str)
async def test_an_answer_decides_over_all_that_waits(
    tmp_path: Path, answer: Any, done: list[str]
) -> None:
    desk = Desk()
    async with opened_runtime(TWO, tmp_path, tools=desk.tools(), guardrails=guarded(ASK)) as here:
        await here.finish("1")
        assert (await resume(here, answer)).status == "success"
        assert sorted(what for what in desk.done if what != "look z") == done
        assert all(row.decided_by == USER for row in await waiting(here, None))


async def test_answers_come_by_the_ids_of_what_waits(tmp_path: Path) -> None:
    desk = Desk()
    async with opened_runtime(TWO, tmp_path, tools=desk.tools(), guardrails=guarded(ASK)) as here:
        await here.finish("1")
        state = await here.runtime.histories.state(await here.thread())
        assert state is not None
        first, second = state.interrupts
        run = await resume(here, {first["id"]: True})
        assert run.status == "interrupted"
        left = second["value"]["approval_id"]
        assert [row.approval_id for row in await waiting(here)] == [left]
        assert (await resume(here, {left: False})).status == "success"
        assert sorted(desk.done) == ["delete x", "look z"]


async def test_answers_of_another_number_are_refused(tmp_path: Path) -> None:
    desk = Desk()
    async with opened_runtime(TWO, tmp_path, tools=desk.tools(), guardrails=guarded(ASK)) as here:
        await here.finish("1")
        with pytest.raises(UsageError):
            await resume(here, [True])
        assert len(await waiting(here)) == 2


async def test_a_message_supersedes_what_waits(tmp_path: Path, database: dict[str, Any]) -> None:
    desk = Desk()
    script = [TWO[0], {"text": "after"}]
    async with opened_runtime(
        script, tmp_path, tools=desk.tools(), guardrails=guarded(ASK), database=database
    ) as here:
        await here.finish("1")
        assert (await here.finish("2")).status == "success"
        assert {row.status for row in await waiting(here, None)} == {"superseded"}
        assert (await here.said())[-2:] == ["2", "after"]
        assert desk.done == ["look z"]
        with pytest.raises(ConflictError):
            await resume(here, True)


async def test_of_several_paused_runs_the_newest_goes_on(
    tmp_path: Path, database: dict[str, Any]
) -> None:
    """The thread goes on from its newest state: what waited on the way that was left is over."""
    desk, gate = Desk(), Gate()
    script = [
        {"text": "zero"},
        {"calls": [{"name": "hold"}, call("delete", what="x")]},
        {"calls": [call("delete", what="y")]},
        {"text": "done"},
    ]
    async with opened_runtime(
        script,
        tmp_path,
        tools=[*desk.tools(), gate.tool()],
        guardrails=guarded(ASK),
        database=database,
    ) as here:
        await here.finish("0")
        state = await here.runtime.histories.state(await here.thread())
        assert state is not None
        left = await here.submit("1")
        await gate.reached(1)
        run = await here.submit(
            "2", checkpoint_id=state.checkpoint_id, options={"strategy": "enqueue"}
        )
        gate.open()
        for each in (left, run):
            ended = await here.runtime.submissions.wait(each.thread_key, each.run_id)
            assert ended.status == "interrupted"
        assert [(row.args["what"], row.run_id) for row in await waiting(here)] == [
            ("y", run.run_id)
        ]
        assert (
            await here.runtime.submissions.answers.go_on(USER, run.thread_key, left.run_id) is None
        )

        assert (await resume(here, [True])).run_id == run.run_id
        assert desk.done == ["delete y"]
        assert await here.said() == ["0", "zero", "2", "", "did delete y", "done"]
        stays = await here.storage.threads.run(left.run_id)
        assert stays is not None
        assert stays.status == "interrupted"


async def test_an_answer_is_for_the_newest_run_that_waits(tmp_path: Path) -> None:
    desk = Desk()
    async with opened_runtime(TWO, tmp_path, tools=desk.tools(), guardrails=guarded(ASK)) as here:
        run = await here.finish("1")
        old = replace((await waiting(here))[0], approval_id="old", run_id="gone", created_at=1.0)
        await here.storage.approvals.request(old)
        assert (await resume(here, [True, False])).run_id == run.run_id
        assert sorted(desk.done) == ["delete x", "look z"]
        assert [row.approval_id for row in await waiting(here)] == []


async def test_an_expired_call_lets_the_run_go_on(tmp_path: Path) -> None:
    desk = Desk()
    rule = {**ASK, "expires_seconds": 0.05}
    script = [{"calls": [call("delete", what="x")]}, {"text": "done"}]
    async with opened_runtime(
        script, tmp_path, tools=desk.tools(), guardrails=guarded(rule)
    ) as here:
        run = await here.finish("1")
        async with asyncio.timeout(10):
            while run.status != "success":
                if not await here.runtime.submissions.answers.expire():
                    await here.storage.events.read(run.thread_key)
                found = await here.storage.threads.run(run.run_id)
                assert found is not None
                run = found
                await asyncio.sleep(0)
        assert desk.done == []


ASKED = {"name": "ask_clarification", "args": {"question": "Which one?", "options": ["a", "b"]}}


@pytest.mark.parametrize("answer", ["b", {"answer": "b"}, {"value": "b"}])
async def test_a_question_is_answered(tmp_path: Path, answer: Any) -> None:
    async with opened_runtime([{"calls": [ASKED]}, {"text": "Took b."}], tmp_path) as here:
        first = await here.finish("Choose")
        with pytest.raises(UsageError):
            await resume(here, " ")
        run = await resume(here, answer)
        assert run.run_id != first.run_id
        assert (await here.said())[-2:] == ["b", "Took b."]


async def test_where_nothing_waits_there_is_nothing_to_answer(tmp_path: Path) -> None:
    async with opened_runtime([{"text": "a"}], tmp_path) as here:
        with pytest.raises(NotFoundError):
            await resume(here, True)
        await here.storage.threads.ensure(USER, "t")
        with pytest.raises(ConflictError):
            await resume(here, True)
        await here.finish("1")
        with pytest.raises(ConflictError):
            await resume(here, True)


def test_what_is_no_clear_yes_is_a_no() -> None:
    for answer in (None, 0, 1, "maybe", {}, {"approved": "yes"}, {"type": "ignore"}, [], "no"):
        assert decision_of(answer, USER, 1.0).status == "rejected"
    assert decision_of("too risky", USER, 1.0).note == "too risky"
    assert words_of({"a": 1}) == '{"a":1}'
    with pytest.raises(UsageError):
        words_of(None)
