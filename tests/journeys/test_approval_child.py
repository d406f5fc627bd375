"""P19: a pending call inside a child reaches the user, and goes on inside the child."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deerflow.middlewares.dangling_tool_call import is_legal
from fakes.approving import (
    Desk,
    approve,
    approving_harness,
    call,
    history,
    logged,
    reject,
    rows,
    run,
)


def task(story: str) -> dict[str, Any]:
    return call(
        "task",
        description=story,
        prompt=f"script:{story} Do it.",
        subagent_type="general-purpose",
    )


STORIES: dict[str, Any] = {
    "lead": [
        {"calls": [task("first"), task("second"), call("look", what="lead")]},
        {"text": "Both are back."},
    ],
    "first": [
        {"calls": [call("look", what="before")]},
        {"calls": [call("delete", what="one"), call("look", what="beside")]},
        {"text": "First is done."},
    ],
    "second": [{"calls": [call("delete", what="two")]}, {"text": "Second is done."}],
}


async def test_p19_a_call_of_a_child_waits_and_resumes_in_the_child(tmp_path: Path) -> None:
    desk = Desk()
    async with approving_harness(STORIES, tmp_path, desk) as harness:
        result = await run(harness, "script:lead Go.")
        assert result.status == "interrupted"
        assert result.outcome is not None
        waiting = result.outcome.detail["approvals"]
        messages = await history(harness)
        ids = [c["id"] for c in messages[1].tool_calls]
        assert {w["agent"]: w["args"]["what"] for w in waiting} == {ids[0]: "one", ids[1]: "two"}
        assert sorted(desk.done) == ["look before", "look beside", "look lead"]
        asked = await logged(harness, "approval_requested")
        assert {a["task_id"] for a in asked} == set(ids[:2])

    async with approving_harness(STORIES, tmp_path, desk) as harness:  # restarted
        by_child = {row.namespace: row for row in await rows(harness)}
        await approve(harness, by_child[ids[0]], {"what": "one less"})
        part = await run(harness)
        assert part.status == "interrupted"
        assert "delete one less" in desk.done
        await reject(harness, by_child[ids[1]], "two stays")
        result = await run(harness)
        assert (result.status, result.text) == ("success", "Both are back.")
        messages = await history(harness)
        assert is_legal(messages)
        first, second, look = (m.content for m in messages if m.type == "tool")
        assert "First is done." in first
        assert "Second is done." in second
        assert look == "did look lead"
        told = await logged(harness, "approval_decided")
        assert [(d["task_id"], d["status"]) for d in told] == [
            (ids[0], "approved"),
            (ids[1], "rejected"),
        ]
        assert len(await logged(harness, "task_started")) == 2
        assert len(await logged(harness, "task_completed")) == 2
        said = [p["message"] for p in await logged(harness, "task_running")]
        assert len({m["id"] for m in said}) == len(said)
        assert any("two stays" in str(m["content"]) for m in said)
    assert sorted(desk.done) == ["delete one less", "look before", "look beside", "look lead"]


async def test_p19_a_new_message_supersedes_what_waits_in_a_child(tmp_path: Path) -> None:
    desk = Desk()
    stories = {**STORIES, "next": [{"text": "As you like."}]}
    async with approving_harness(stories, tmp_path, desk) as harness:
        await run(harness, "script:lead Go.")
        [one, two] = await rows(harness)
        await approve(harness, one)
        result = await run(harness, "script:next Leave it.")
        assert (result.status, result.text) == ("success", "As you like.")
        messages = await history(harness)
        assert is_legal(messages)
        results = {m.tool_call_id: m for m in messages if m.type == "tool"}
        assert "superseded by a new message" in results[two.namespace].content
        assert results[two.namespace].status == "error"
        assert "Not approved" not in results[one.namespace].content
        assert [m.content for m in messages if m.type == "tool"][2] == "did look lead"
        assert await rows(harness) == []
        assert (await approve(harness, two)).row.status == "superseded"
        told = await logged(harness, "approval_decided")
        assert [(d["task_id"], d["status"]) for d in told] == [
            (one.namespace, "approved"),
            (two.namespace, "superseded"),
        ]
    assert not [what for what in desk.done if "delete" in what]


async def test_p19_items_of_a_batch_wait_and_go_on_each_for_itself(tmp_path: Path) -> None:
    desk = Desk()
    batch = call("task_batch", items=["a", "b", "c"], prompt_template="script:item {item}")
    stories = {
        "lead": [{"calls": [batch]}, {"text": "The batch is back."}],
        "item": [{"calls": [call("delete", what="x")]}, {"text": "Item is done."}],
    }
    async with approving_harness(stories, tmp_path, desk) as harness:
        result = await run(harness, "script:lead Go.")
        assert result.status == "interrupted"
        assert desk.done == []
        for row in (await rows(harness))[:2]:
            await approve(harness, row)
        assert (await run(harness)).status == "interrupted"
        assert desk.done == ["delete x"] * 2
        [last] = await rows(harness)
        await reject(harness, last)
        result = await run(harness)
        assert (result.status, result.text) == ("success", "The batch is back.")
    assert desk.done == ["delete x"] * 2
