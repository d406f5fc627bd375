"""Row 13: how many children a turn and a run may start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage

from deerflow.agent.calls import REFUSED
from deerflow.agent.context import RunContext
from deerflow.agent.journal import NOT_FINISHED
from deerflow.config.schema import SubagentsConfig
from deerflow.middlewares.subagent_limit import SubagentLimitMiddleware
from deerflow.subagents.answers import TaskAnswers
from fakes.children import family, says, task
from fakes.rows import call_tool, events, request, run_context, tool, user


def row(**keys: Any) -> SubagentLimitMiddleware:
    return SubagentLimitMiddleware(SubagentsConfig.model_validate(keys), TaskAnswers())


def turn(*prompts: str, id: str = "a1", **extra: Any) -> AIMessage:
    calls = [
        {**task(prompt), "id": f"{id}-{n}", "type": "tool_call"} for n, prompt in enumerate(prompts)
    ]
    return AIMessage("", id=id, tool_calls=calls, additional_kwargs=extra)


async def answers(
    made: SubagentLimitMiddleware, state: dict[str, Any], run: RunContext
) -> list[str]:
    """What each call of the newest turn gets: "ran", or the text that stands in its place."""

    async def effect(**_: Any) -> str:
        return "ran"

    texts: list[str] = []
    for call in state["messages"][-1].tool_calls:
        asked = request(tool(call["name"]), run, state)
        asked.tool_call.update(call)
        got = await call_tool([made], run, asked, effect)
        assert isinstance(got, ToolMessage) and got.tool_call_id == call["id"]
        texts.append(got.text)
    return texts


def entries(count: int, run_id: str = "r1") -> dict[str, Any]:
    return {
        f"{run_id}-{n}": {
            "task_id": f"{run_id}-{n}", "description": "", "prompt": f"old {n}",
            "subagent_type": "general-purpose", "status": "completed", "result": "",
            "run_id": run_id,
        }
        for n in range(count)
    }  # fmt: skip


async def test_a_turn_runs_its_first_calls_and_each_other_is_told_why() -> None:
    run = run_context()
    state = {"messages": [user("go"), turn("p1", "p2", "p3", "p4", "p5")]}
    texts = await answers(row(), state, run)
    assert texts[:3] == ["ran"] * 3
    assert texts[3].startswith("Not run: max_concurrent, this is task call 4 of the turn and 3")
    assert "do it yourself" in texts[4]
    told = await events(run, "guard")
    assert [(t["rule"], t["used"], t["limit"], t["action"]) for t in told] == [
        ("max_concurrent", 4, 3, "refused"), ("max_concurrent", 5, 3, "refused"),
    ]  # fmt: skip


async def test_the_number_at_once_stays_between_two_and_four() -> None:
    for given, ran in ((1, 2), (2, 2), (4, 4), (16, 4)):
        state = {"messages": [user("go"), turn(*(f"p{n}" for n in range(6)))]}
        texts = await answers(row(max_concurrent=given), state, run_context())
        assert texts.count("ran") == ran


async def test_a_run_has_so_many_children_in_all() -> None:
    made = row(max_total_per_run=6)
    state = {"messages": [user("go"), turn("p1", "p2", id="a9")]}
    state["delegations"] = entries(5) | entries(9, "r0")  # those of an earlier run do not count
    texts = await answers(made, state, run_context())
    assert texts[0] == "ran"
    assert texts[1].startswith("Not run: max_total_per_run, 6 children per run")


async def test_calls_that_are_entered_again_count_once() -> None:
    state = {"messages": [user("go"), turn("p1", "p2", "p3")], "delegations": entries(3)}
    made, run = row(max_total_per_run=6), run_context(resumed=True)
    for _ in range(3):
        assert await answers(made, state, run) == ["ran"] * 3


async def test_refused_and_repeated_calls_do_not_count() -> None:
    state = {
        "messages": [
            user("go"),
            turn("old 1", "new 1", "new 1", "loop", "new 2", "new 3", **{REFUSED: {"a1-3": "no"}}),
        ],
        "delegations": entries(3),
    }
    texts = await answers(row(), state, run_context())
    assert texts[0].startswith("From the ledger")
    assert texts[2].startswith("Not run a second time: the call a1-1")
    assert [texts[1], texts[4], texts[5]] == ["ran"] * 3


async def test_many_calls_of_a_turn_are_not_held_against_each_other_again_and_again() -> None:
    class Counted(TaskAnswers):
        asked = 0

        def repeated(self, state: Any, turn: AIMessage, call: Any) -> ToolMessage | None:
            self.asked += 1
            return super().repeated(state, turn, call)

    counted = Counted()
    state = {"messages": [user("go"), turn(*(f"part {n}" for n in range(60)))]}
    texts = await answers(SubagentLimitMiddleware(SubagentsConfig(), counted), state, run_context())
    assert texts.count("ran") == 3
    assert "task call 60 of the turn" in texts[-1]
    assert counted.asked <= 60 * (1 + 3)


async def test_other_tools_are_not_counted() -> None:
    batch = AIMessage(
        "",
        id="a1",
        tool_calls=[{"name": "task_batch", "args": {}, "id": f"b{n}"} for n in range(9)],
    )
    state = {"messages": [user("go"), batch], "delegations": entries(50)}
    assert await answers(row(), state, run_context()) == ["ran"] * 9


async def test_a_refusal_is_told_once() -> None:
    state = {"messages": [user("go"), turn("p1", "p2", "p3", "p4")]}
    run = run_context(resumed=True, completed={"a1-3"})
    await answers(row(), state, run)
    assert await events(run, "guard") == []


async def test_an_open_call_of_a_stopped_run_is_answered_as_cancelled() -> None:
    state = {"messages": [user("go"), turn("p1")]}
    run = run_context(closing=True, resumed=True, tasks={"a1-0": "task_started"})
    asked = request(tool("task"), run, state)
    asked.tool_call.update(state["messages"][-1].tool_calls[0])
    for found, status in ((NOT_FINISHED, "cancelled"), ("recorded", None)):

        async def closer(text: str = found, **_: Any) -> str:
            return text

        asked.tool_call["args"] = {**asked.tool_call["args"]}
        got: Any = await call_tool([row()], run, asked, lambda text=found, **_: closer(text))
        if status is None:
            assert got.text == "recorded"
            continue
        (message,) = got.update["messages"]
        assert message.additional_kwargs["subagent_status"] == status
        assert got.update["delegations"]["a1-0"]["status"] == status
    assert [e["task_id"] for e in await events(run, "task_cancelled")] == ["a1-0"]


async def test_a_dropped_call_keeps_its_place_in_the_transcript(tmp_path: Path) -> None:
    stories = {
        "lead": [
            says("", *(task(f"script:one part {n}") for n in range(5))),
            says("", *(task(f"script:one more {n}") for n in range(2))),
            says("Done."),
        ],
        "one": [says("Did it.")],
    }
    limits = {"max_concurrent": 2, "max_total_per_run": 3}
    run = await family(tmp_path, stories, subagents=limits)
    ran = [answer.text == "Did it." for answer in run.answers]
    assert ran == [True, True, False, False, False, True, False]
    assert "max_total_per_run, 3 children" in run.answers[-1].text
    assert len(run.of("task_started")) == len(run.state["delegations"]) == 3
    assert run.result.text == "Done."
