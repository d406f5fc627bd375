"""P19: a human decides over calls, enforced by code, across restarts, each for its own call."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from deerflow.middlewares.dangling_tool_call import is_legal
from fakes.approving import (
    ASK,
    Desk,
    approve,
    approving_harness,
    call,
    guarded,
    history,
    logged,
    reject,
    rows,
    run,
    until_asked,
)
from fakes.tree import PACKAGE

THREE = [
    {
        "text": "I clean up.",
        "calls": [
            call("delete", what="a"),
            call("look", what="b"),
            call("delete", what="c"),
            call("delete", what="d"),
        ],
    },
    {"text": "All done."},
]


def documented(event: str) -> set[str]:
    """Fields of an event as its documentation names them."""
    text = (PACKAGE / "events.py").read_text(encoding="utf-8")
    [fields] = re.findall(rf'"{event}",  # {{([^}}]*)}}', text)
    return set(fields.split(", "))


async def test_p19_each_decision_applies_to_its_own_call_after_a_restart(tmp_path: Path) -> None:
    desk = Desk()
    async with approving_harness(THREE, tmp_path, desk) as harness:
        result = await run(harness, "Clean up")
        assert result.status == "interrupted"
        assert result.outcome is not None
        assert result.outcome.kind == "waiting_for_human"
        waiting = result.outcome.detail["approvals"]
        assert [w["args"]["what"] for w in waiting] == ["a", "c", "d"]
        assert waiting[0].keys() == {
            "approval_id", "tool", "args", "reason", "agent", "default", "expires_at"
        }  # fmt: skip
        assert (waiting[0]["agent"], waiting[0]["reason"]) == ("lead", "deletes for good")
        assert desk.done == ["look b"]  # the read ran at once, and nothing else
        [ended] = await logged(harness, "run_ended")
        assert ended["outcome"] == result.outcome.to_dict()
        assert ended["status"] == "interrupted"

    async with approving_harness(THREE, tmp_path, desk) as harness:  # the server has restarted
        first, second, third = await rows(harness)
        await approve(harness, first)
        await reject(harness, second, "c is still needed")
        await approve(harness, third, {"what": "d2"})
        assert desk.done == ["look b"]
        result = await run(harness)
        assert (result.status, result.text) == ("success", "All done.")
        assert desk.done[1:] in (["delete a", "delete d2"], ["delete d2", "delete a"])
        messages = await history(harness)
        assert is_legal(messages)
        said = [m.content for m in messages if m.type == "tool"]
        assert said[:2] == ["did delete a", "did look b"]
        assert said[2].startswith("Not approved: c is still needed.")
        assert said[3].endswith("did delete d2")
        assert "what" in said[3].split("\n")[0]
        assert [c["args"]["what"] for c in messages[1].tool_calls] == ["a", "b", "c", "d"]
        asked = await logged(harness, "approval_requested")
        assert [a["args"]["what"] for a in asked] == ["a", "c", "d"]
        assert documented("approval_requested") == set(asked[0])
        told = await logged(harness, "approval_decided")
        assert documented("approval_decided") == set(told[0])
        assert [(d["status"], d["note"], d["edited"]) for d in told] == [
            ("approved", "", None),
            ("rejected", "c is still needed", None),
            ("approved", "", {"what": "d2"}),
        ]


async def test_p19_identical_calls_are_decided_apart(tmp_path: Path) -> None:
    desk = Desk()
    script = [{"calls": [call("delete", what="x"), call("delete", what="x")]}, {"text": "Done."}]
    async with approving_harness(script, tmp_path, desk) as harness:
        await run(harness, "Go")
        first, second = await rows(harness)
        await reject(harness, first)
        await approve(harness, second)
        await run(harness)
        said = [m.content for m in await history(harness) if m.type == "tool"]
    assert desk.done == ["delete x"]
    assert said[0].startswith("Not approved: the user said no")
    assert said[1] == "did delete x"


async def test_p19_a_second_approval_from_another_device_changes_nothing(tmp_path: Path) -> None:
    desk = Desk()
    script = [{"calls": [call("delete", what="x")]}, {"text": "Done."}]
    async with (
        approving_harness(script, tmp_path, desk) as harness,
        approving_harness(script, tmp_path, desk) as other,
    ):
        await run(harness, "Go")
        [row] = await rows(harness)
        made = await asyncio.gather(
            approve(harness, row, {"what": "mine"}), approve(other, row, {"what": "yours"})
        )
        assert sorted(one.counts for one in made) == [False, True]
        assert made[0].row == made[1].row
        late = await reject(other, row, "too late")
        assert (late.counts, late.row.status) == (False, "approved")
        assert "nothing was changed" in late.text
        await run(harness)
        assert len(await logged(harness, "approval_decided")) == 1
    assert desk.done == [f"delete {made[0].row.edited['what']}"]  # type: ignore[index]


async def test_p19_no_answer_in_time_means_the_stated_default(tmp_path: Path) -> None:
    desk = Desk()
    script = [{"calls": [call("delete", what="a"), call("delete", what="b")]}, {"text": "Done."}]
    soon = {**ASK, "expires_seconds": 1e-6}  # over before the run looks at what it waits for
    policy = guarded({**soon, "args": {"what": "a"}}, {**soon, "default": "allow"})
    async with approving_harness(script, tmp_path, desk, guardrails=policy) as harness:
        result = await run(harness, "Go")
        assert result.status == "success"
        said = [m.content for m in await history(harness) if m.type == "tool"]
        asked = await logged(harness, "approval_requested")
        told = await logged(harness, "approval_decided")
    assert said[0].startswith("Not approved within 0 seconds.")
    assert said[1] == "did delete b"
    assert [a["default"] for a in asked] == ["deny", "allow"]
    assert [(d["status"], d["by"]) for d in told] == [("expired", "expiry")] * 2
    assert desk.done == ["delete b"]


async def test_p19_what_expires_while_no_process_is_alive_is_decided_by_the_next_that_looks(
    tmp_path: Path,
) -> None:
    desk = Desk()
    script = [{"calls": [call("delete", what="a")]}, {"text": "Done."}]
    policy = guarded({**ASK, "expires_seconds": 3600})
    async with approving_harness(script, tmp_path, desk, guardrails=policy) as harness:
        assert (await run(harness, "Go")).status == "interrupted"
    async with approving_harness(script, tmp_path, desk) as harness:
        [row] = await rows(harness)
        late = await approve(harness, row, at=row.created_at + 3601)
        assert (late.counts, late.row.status) == (False, "expired")
        assert "expired" in late.text
        assert (await run(harness)).status == "success"
        said = [m.content for m in await history(harness) if m.type == "tool"]
    assert said[0].startswith("Not approved within 3600 seconds.")
    assert desk.done == []


async def test_p19_a_resume_without_a_decision_says_what_waits_and_asks_no_model(
    tmp_path: Path,
) -> None:
    desk = Desk()
    async with approving_harness(THREE, tmp_path, desk) as harness:
        first = await run(harness, "Clean up")
        for _ in range(2):
            again = await run(harness)
            assert (again.status, again.outcome) == ("interrupted", first.outcome)
        [one, *_] = await rows(harness)
        await approve(harness, one)
        part = await run(harness)
        assert part.status == "interrupted"
        assert part.outcome is not None
        assert [w["args"]["what"] for w in part.outcome.detail["approvals"]] == ["c", "d"]
        assert len(await logged(harness, "model_started")) == 1
        assert len(await logged(harness, "approval_requested")) == 3
    assert desk.done == ["look b", "delete a"]


async def test_p19_a_decision_while_other_calls_run_is_carried_out_in_the_same_run(
    tmp_path: Path,
) -> None:
    desk = Desk()
    script = [{"calls": [call("delete", what="a"), call("look", what="b")]}, {"text": "Done."}]

    async def decide(what: str) -> None:
        if what == "look b":
            [row] = await until_asked(harness)
            await approve(harness, row)

    desk.before = decide
    async with approving_harness(script, tmp_path, desk) as harness:
        result = await run(harness, "Go")
        assert (result.status, result.text) == ("success", "Done.")
        assert len(await logged(harness, "approval_decided")) == 1
        messages = await logged(harness, "message")
        assert len({m["message"]["id"] for m in messages}) == len(messages)
    assert desk.done == ["look b", "delete a"]


async def test_p19_a_new_message_supersedes_what_waits(tmp_path: Path) -> None:
    desk = Desk()
    script = [*THREE[:1], {"text": "I keep them."}]
    async with approving_harness(script, tmp_path, desk) as harness:
        await run(harness, "Clean up")
        one, two, three = await rows(harness)
        await approve(harness, one)
        result = await run(harness, "Keep everything")
        assert (result.status, result.text) == ("success", "I keep them.")
        messages = await history(harness)
        assert is_legal(messages)
        said = [m.content for m in messages if m.type == "tool"]
        assert said == [
            "Not run: the run ended before this call.",
            "did look b",
            "Not approved: superseded by a new message.",
            "Not approved: superseded by a new message.",
        ]
        late = await approve(harness, two)
        assert (late.counts, late.row.status) == (False, "superseded")
        assert "superseded" in late.text
        assert await rows(harness) == []
        told = await logged(harness, "approval_decided")
        assert sorted(d["status"] for d in told) == ["approved", "superseded", "superseded"]
        assert three.status == "pending"
    assert desk.done == ["look b"]


async def test_p19_a_policy_that_has_changed_since_leaves_decisions_as_they_are(
    tmp_path: Path,
) -> None:
    desk = Desk()
    async with approving_harness(THREE, tmp_path, desk) as harness:
        await run(harness, "Clean up")
    for policy in (guarded(default="allow"), {"enabled": False}, guarded(denied_tools=["delete"])):
        async with approving_harness(THREE, tmp_path, desk, guardrails=policy) as harness:
            assert (await run(harness)).status == "interrupted"
            assert len(await rows(harness)) == 3
    async with approving_harness(THREE, tmp_path, desk, guardrails={"enabled": False}) as harness:
        one, two, three = await rows(harness)
        await approve(harness, one)
        await reject(harness, two)
        await approve(harness, three)
        assert (await run(harness)).status == "success"
    assert sorted(desk.done) == ["delete a", "delete d", "look b"]


async def test_p19_nobody_approves_past_the_policy_by_editing(tmp_path: Path) -> None:
    desk = Desk()
    never = {"tools": "delete", "decision": "deny", "args": {"what": "/*"}, "reason": "too much"}
    script = [{"calls": [call("delete", what="a")]}, {"text": "Done."}]
    policy = guarded(never, ASK)
    async with approving_harness(script, tmp_path, desk, guardrails=policy) as harness:
        await run(harness, "Go")
        [row] = await rows(harness)
        await approve(harness, row, {"what": "/etc"})
        await run(harness)
        said = [m.content for m in await history(harness) if m.type == "tool"]
    assert desk.done == []
    assert "too much" in said[0]


async def test_p19_fifty_calls_of_one_turn_wait_and_are_decided(tmp_path: Path) -> None:
    desk = Desk()
    many = [call("delete", what=str(n)) for n in range(50)]
    script: list[Any] = [{"calls": many}, {"text": "Done."}]
    async with approving_harness(script, tmp_path, desk) as harness:
        result = await run(harness, "Go")
        assert result.outcome is not None
        assert len(result.outcome.detail["approvals"]) == 50
        for row in await rows(harness):
            await (reject if row.index % 2 else approve)(harness, row)
        assert (await run(harness)).status == "success"
        messages = await history(harness)
    assert is_legal(messages)
    assert sorted(desk.done) == sorted(f"delete {n}" for n in range(0, 50, 2))
    results = [m for m in messages if m.type == "tool"]
    assert [m.content == f"did delete {n}" for n, m in enumerate(results)] == [True, False] * 25
