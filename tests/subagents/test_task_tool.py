"""`task`: what a child sees, how it ends, and what the lead and the log are told of it."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import orjson
import pytest
from langchain_core.tools import StructuredTool, tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.types import interrupt

from deerflow.config.schema import SubagentsConfig
from deerflow.events import TASK_EVENTS
from deerflow.middlewares.token_usage import CHILD_USAGE
from deerflow.runtime.request import RunRequest
from deerflow.subagents.roster import Roster
from deerflow.subagents.task_tool import MAX_PROMPT, task_tools
from fakes.children import Played, family, model, played, says, state_of, task
from fakes.documented import fields
from fakes.harness import scripted_harness, scripted_of


def started_and_ended(run: Played) -> list[tuple[str, str]]:
    return [(e.type, e.payload["task_id"]) for e in run.events if e.type in TASK_EVENTS]


async def test_a_child_sees_its_prompt_alone_and_the_lead_its_answer(tmp_path: Path) -> None:
    stories = {
        "lead": [
            says("", task("script:one SECRET-1"), task("script:two SECRET-2", kind="bash")),
            says("All done."),
        ],
        "one": [says("", {"name": "ls", "args": {"path": "/mnt/user-data"}}), says("One is done.")],
        "two": [says("Two is done.")],
    }
    async with scripted_harness([], tmp_path, models=[model(stories)]) as harness:
        run = await played(harness, "script:lead LEAD-SECRET")
        requests = scripted_of(harness).requests
    assert (run.result.status, run.result.text) == ("success", "All done.")
    assert [answer.text for answer in run.answers] == ["One is done.", "Two is done."]
    for mine, others in (("SECRET-1", "SECRET-2"), ("SECRET-2", "SECRET-1")):
        seen = [r for r in requests if mine in r.messages[-1].text or mine in r.messages[1].text]
        text = "".join(m.text for r in seen if "LEAD" not in r.messages[1].text for m in r.messages)
        assert mine in text and others not in text and "LEAD-SECRET" not in text
    child = next(r for r in requests if "SECRET-2" in r.messages[-1].text)
    assert set(child.tool_names) <= {
        "bash", "python", "read_file", "write_file", "ls", "glob", "grep"
    }  # fmt: skip
    assert "task" not in child.tool_names


async def test_the_result_is_structured(tmp_path: Path) -> None:
    stories = {
        "lead": [says("", task("script:one")), says("Done.")],
        "one": [says("", {"name": "ls", "args": {"path": "/mnt/user-data"}}), says("Found.")],
    }
    run = await family(tmp_path, stories)
    (answer,) = run.answers
    extra = dict(answer.additional_kwargs)
    used = extra.pop(CHILD_USAGE)
    assert extra == {
        "subagent_status": "completed",
        "subagent_result_brief": "Found.",
        "subagent_result_sha256": hashlib.sha256(b"Found.").hexdigest(),
        "subagent_model_name": "scripted",
        "subagent_token_usage": {"input_tokens": 200, "output_tokens": 20, "total_tokens": 220},
    }
    assert used["by_caller"]["general-purpose"]["total"] == 220
    assert run.result.usage["by_caller"]["general-purpose"]["total"] == 220
    assert run.result.usage["total"]["total"] == 440
    (entry,) = run.state["delegations"].values()
    assert (entry["status"], entry["result"]) == ("completed", "Found.")
    logged = next(m for m in run.of("message") if m["message"].get("name") == "task")
    assert logged["message"]["additional_kwargs"]["subagent_status"] == "completed"


async def test_events_of_a_child_have_the_documented_fields(tmp_path: Path) -> None:
    stories = {
        "lead": [says("", task("script:one"), task("script:bad")), says("Done.")],
        "one": [says("", {"name": "ls", "args": {"path": "/mnt/user-data"}}), says("Found.")],
        "bad": [{"error": "auth"}],
    }
    run = await family(tmp_path, stories)
    documented = fields()
    for event in run.events:
        if event.type.startswith("task_"):
            needed, optional = documented[event.type]
            assert needed <= set(event.payload) <= needed | optional, event.type
    one, bad = (answer.tool_call_id for answer in run.answers)
    assert sorted(started_and_ended(run)) == sorted(
        [("task_started", one), ("task_completed", one), ("task_started", bad),
         ("task_failed", bad)]
    )  # fmt: skip
    kinds = [p["message"]["type"] for p in run.of("task_running") if p["task_id"] == one]
    assert kinds == ["ai", "tool", "ai"]


async def test_a_childs_error_ends_neither_its_sibling_nor_the_lead(tmp_path: Path) -> None:
    stories = {
        "lead": [says("", task("script:bad"), task("script:good")), says("Done.")],
        "bad": [{"error": "payment"}],
        "good": [says("Fine.")],
    }
    run = await family(tmp_path, stories)
    bad, good = run.answers
    assert run.result.text == "Done."
    assert (bad.status, bad.additional_kwargs["subagent_status"]) == ("error", "failed")
    assert "model_payment" in bad.text and "Do it yourself" in bad.text
    assert run.of("task_failed")[0]["error"]["code"] == "model_payment"
    assert good.text == "Fine."
    assert [e["status"] for e in run.state["delegations"].values()] == ["failed", "completed"]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (task("x", kind="painter"), "Kinds: general-purpose, bash."),
        (task("  "), "The prompt is empty."),
        (task("x" * 10_000_000), "Write the material to a file in /mnt/user-data/workspace"),
        (task("x", max_turns=0), "max_turns 0 is no number of turns."),
    ],
)
async def test_a_bad_call_is_told_with_its_cure(
    tmp_path: Path, call: dict[str, Any], told: str
) -> None:
    stories = {
        "lead": [says("", call, task("script:good")), says("Done.")],
        "good": [says("Fine.")],
    }
    # by calls: the call may be so large that the compaction hides it from the model
    run = await family(tmp_path, stories, models=[model(stories, follow="calls")])
    bad, good = run.answers
    assert bad.status == "error" and told in bad.text and len(bad.text) < 300
    assert (good.text, run.result.text) == ("Fine.", "Done.")
    assert [entry["task_id"] for entry in run.state["delegations"].values()] == [good.tool_call_id]


async def test_the_longest_prompt_is_taken(tmp_path: Path) -> None:
    prompt = "script:one " + "x" * (MAX_PROMPT - len("script:one "))
    run = await family(
        tmp_path, {"lead": [says("", task(prompt)), says("Done.")], "one": [says("Read.")]}
    )
    assert run.answers[0].text == "Read."


async def test_a_child_out_of_turns_brings_what_it_has(tmp_path: Path) -> None:
    look = {"name": "ls", "args": {"path": "/mnt/user-data"}}
    stories = {
        "lead": [says("", task("script:long", max_turns=2)), says("Done.")],
        "long": [says("Half of it: 21.", look), says("", {**look, "args": {"path": "/mnt"}})],
    }
    (answer,) = (await family(tmp_path, stories)).answers
    assert answer.additional_kwargs["subagent_status"] == "completed"
    assert answer.additional_kwargs["subagent_stop_reason"] == "max_turns"
    assert answer.text.startswith("Half of it: 21.") and "2 model turns" in answer.text


async def test_a_child_without_an_answer_has_failed(tmp_path: Path) -> None:
    stories = {
        "lead": [says("", task("script:mute")), says("Done.")],
        "mute": [says(" "), says(" ")],
    }
    run = await family(tmp_path, stories)
    assert run.of("task_failed")[0]["error"]["code"] == "empty_answer"
    assert run.answers[0].additional_kwargs["subagent_status"] == "failed"


async def test_a_childs_clock_ends_it_and_what_it_runs(tmp_path: Path) -> None:
    ended: list[str] = []

    @tool
    async def hang() -> str:
        """Never come back."""
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("hang")
        return ""

    stories = {
        "lead": [says("", task("script:slow"), task("script:quick")), says("Done.")],
        "slow": [says("I wait now.", {"name": "hang", "args": {}})],
        "quick": [says("Quick.")],
    }
    run = await family(tmp_path, stories, tools=(hang,), subagents={"timeout_seconds": 0.3})
    slow, quick = run.answers
    assert slow.additional_kwargs["subagent_status"] == "timed_out"
    assert "0.3 s" in slow.text and "I wait now." in slow.text
    assert (quick.text, run.result.text, ended) == ("Quick.", "Done.", ["hang"])
    assert run.of("task_timed_out")[0]["error"]["code"] == "child_timeout"
    assert run.state["delegations"][slow.tool_call_id]["status"] == "timed_out"


async def test_a_child_that_waits_for_a_human_goes_on_where_it_stopped(tmp_path: Path) -> None:
    allowed: list[str] = []
    did: list[str] = []

    async def danger(what: str) -> str:
        """Ask first."""
        if what not in allowed:
            interrupt({"may I": what})
        did.append(what)
        return f"did {what}"

    @tool
    async def plain(what: str) -> str:
        """Just do it."""
        did.append(what)
        return f"did {what}"

    stories = {
        "lead": [says("", task("script:asks"), task("script:free")), says("Done.")],
        "asks": [
            says("", {"name": "plain", "args": {"what": "before"}}),
            says("", {"name": "danger", "args": {"what": "delete"}}),
            says("Deleted."),
        ],
        "free": [says("Free.")],
    }
    # like row 18 it asks outside the journal, which idempotent tools have no start row in
    marks = {"deerflow": {"idempotent": True}}
    asks = StructuredTool.from_function(coroutine=danger, metadata=marks)
    models = [model(stories)]
    async with scripted_harness([], tmp_path, tools=(asks, plain), models=models) as harness:
        first = await played(harness)
        assert first.result.status == "interrupted"
        assert did == ["before"]
        asked = len(scripted_of(harness).requests)
        allowed.append("delete")
        second = await played(harness, "", resume=True)
        assert (second.result.status, second.result.text) == ("success", "Done.")
        assert len(scripted_of(harness).requests) - asked == 2  # the child's last turn, the lead's
    assert did == ["before", "delete"]
    asking, free = (answer.tool_call_id for answer in second.answers)
    # the second run's handle tells its own events, the log has both
    kinds = started_and_ended(first) + started_and_ended(second)
    assert kinds.count(("task_started", asking)) == 1
    assert kinds[-1] == ("task_completed", asking)
    assert kinds.count(("task_completed", free)) == 1
    assert second.result.usage["by_caller"]["general-purpose"]["total"] == 4 * 110
    assert second.result.usage["total"]["total"] == 6 * 110


async def test_p04_a_child_that_repeats_itself_stops_and_brings_what_it_has(tmp_path: Path) -> None:
    same = says("", {"name": "ls", "args": {"path": "/mnt/user-data"}}, times=1000)
    stories = {
        "lead": [says("", *(task(f"script:loop sentence {n}") for n in range(3))), says("Done.")],
        "loop": [same],
    }
    run = await family(tmp_path, stories)
    assert run.result.text == "Done."
    for answer in run.answers:
        extra = answer.additional_kwargs
        assert extra["subagent_status"] == "completed"
        assert extra["subagent_stop_reason"] == "loop_detection"
        assert "workspace" in answer.text and "Stopped" in answer.text
        assert extra["subagent_token_usage"]["total_tokens"] <= 10 * 110
    assert {p["action"] for p in run.of("guard") if "task_id" in p} >= {"warned", "stopped"}


async def test_p04_the_second_batch_of_the_same_topic_comes_from_the_ledger(tmp_path: Path) -> None:
    topics = [f"script:dig Research topic {name} for 2026." for name in ("tea", "rice", "salt")]
    again = [f"Please {topic.replace('Research', 'research')}" for topic in topics]
    stories = {
        "lead": [
            says("", *map(task, topics)),
            says("", *map(task, again)),
            says("", *map(task, topics)),
            says("Done."),
        ],
        "dig": [says("Dug.")],
    }
    run = await family(tmp_path, stories)
    assert len(run.of("task_started")) == 3
    assert len(run.state["delegations"]) == 3
    first, later = run.answers[:3], run.answers[3:]
    for index, answer in enumerate(later):
        source = first[index % 3]
        assert answer.additional_kwargs["subagent_same_as"] == source.tool_call_id
        assert answer.status == "success" and answer.text.endswith("\n\nDug.")
        assert "For a fresh run say in the prompt what differs" in answer.text
    assert run.result.usage["by_caller"]["general-purpose"]["calls"] == 3
    assert not run.of("guard")


async def test_p04_a_topic_is_known_after_a_compaction(tmp_path: Path) -> None:
    stories = {
        "lead": [says("", task("script:dig tea")), says("Dug it.")],
        "dig": [says("Tea grows in Assam.")],
        "again": [says("", task("script:dig the tea")), says("Known.")],
    }
    async with scripted_harness([], tmp_path, models=[model(stories)]) as harness:
        await played(harness)
        await played(harness, "script:again a first time")
        await played(harness, "/compact")
        run = await played(harness, "script:again after it")
        sent = scripted_of(harness).requests[-2].messages
    assert not run.of("task_started")
    assert "From the ledger" in run.answers[-1].text and "Assam" in run.answers[-1].text
    assert "Tea grows in Assam" in "".join(m.text for m in sent)


async def test_a_child_has_its_own_shell_beside_the_leads(tmp_path: Path) -> None:
    def bash(command: str) -> dict[str, Any]:
        return {"name": "bash", "args": {"command": command}}

    stories = {
        "lead": [
            says("", bash("cd /mnt/user-data/outputs")),
            says("", task("script:kid")),
            says("", bash("pwd")),
            says("Done."),
        ],
        "kid": [says("", bash("cd /mnt/user-data/uploads")), says("", bash("pwd")), says("Ok.")],
    }
    run = await family(tmp_path, stories)
    shells = [m.text for m in run.result.messages if m.type == "tool" and m.name == "bash"]
    assert shells[-1] == "/mnt/user-data/outputs"
    told = [p["message"]["content"] for p in run.of("task_running")]
    assert "/mnt/user-data/uploads" in told
    assert list(run.state["sandbox"]["cwd"]) == ["lead"]


async def test_what_failed_may_run_again(tmp_path: Path) -> None:
    stories = {
        "lead": [says("", task("script:dig")), says("", task("script:dig")), says("Done.")],
        "dig": [{"error": "auth"}, says("Dug.")],
    }
    run = await family(tmp_path, stories)
    failed, dug = run.answers
    assert failed.additional_kwargs["subagent_status"] == "failed"
    assert (dug.text, "subagent_same_as" in dug.additional_kwargs) == ("Dug.", False)


async def test_two_equal_calls_of_a_turn_run_once(tmp_path: Path) -> None:
    stories = {
        "lead": [says("", task("script:dig"), task("script:dig")), says("Done.")],
        "dig": [says("Dug.")],
    }
    run = await family(tmp_path, stories)
    dug, twin = run.answers
    assert len(run.of("task_started")) == 1
    assert dug.tool_call_id in twin.text and twin.status == "success"


async def test_the_ledger_lasts_from_run_to_run(tmp_path: Path) -> None:
    stories = {
        "lead": [says("", task("script:dig")), says("Done.")],
        "dig": [says("Dug.")],
    }
    async with scripted_harness([], tmp_path, models=[model(stories)]) as harness:
        first = await played(harness)
        second = await played(harness)
        assert list(await state_of(harness)) == list(second.state)
    assert len(first.of("task_started")) == 1 and not second.of("task_started")
    assert second.answers[-1].additional_kwargs["subagent_same_as"]


async def test_a_stopped_child_is_cancelled_for_good(tmp_path: Path) -> None:
    at_work = asyncio.Event()

    @tool
    async def hang() -> str:
        """Never come back."""
        at_work.set()
        await asyncio.Event().wait()
        return ""

    stories = {
        "lead": [says("", task("script:slow")), says("Not reached.")],
        "slow": [says("", {"name": "hang", "args": {}})],
        "next": [says("Next.")],
    }
    async with scripted_harness([], tmp_path, tools=(hang,), models=[model(stories)]) as harness:
        handle = await harness.runs.start(RunRequest(task="script:lead go", thread_id="t"))
        await at_work.wait()
        handle.cancel()
        assert (await handle.result()).status == "cancelled"
        kinds = [e.type async for e in handle.events() if e.type in TASK_EVENTS]
        assert kinds == ["task_started", "task_cancelled"]
        after = await played(harness, "script:next go on")
    assert after.result.text == "Next."
    answer = next(m for m in after.state["messages"] if m.type == "tool")
    assert answer.additional_kwargs["subagent_status"] == "cancelled"
    assert answer.text.startswith("Cancelled: the run was stopped")
    assert [e["status"] for e in after.state["delegations"].values()] == ["cancelled"]
    assert not [p for p in after.of(*TASK_EVENTS)]


def test_the_schema_is_small() -> None:
    (made,) = task_tools(None, Roster(SubagentsConfig()))  # type: ignore[arg-type]
    assert len(orjson.dumps(convert_to_openai_tool(made))) <= 600


def test_own_kinds_are_listed_with_their_description() -> None:
    config = SubagentsConfig.model_validate(
        {"custom_agents": {"poet": {"description": "Verse " * 40}, "mute": {}}}
    )
    (made,) = task_tools(None, Roster(config))  # type: ignore[arg-type]
    assert "; poet: Verse Verse" in made.description and made.description.endswith("; mute")
    assert len(made.description) < 500
