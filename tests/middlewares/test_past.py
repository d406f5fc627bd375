"""What is kept of a covered conversation: its text as a file, and the facts in it."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, HumanMessage

from deerflow.agent.deliverables import REMINDER
from deerflow.errors import SandboxError
from deerflow.middlewares.past import DELEGATED, brief, clipped, facts, markdown, stored
from deerflow.sandbox.inmemory import InMemoryProvider
from fakes.rows import calls, result, run_context, user

PAST = [
    user("Write it."),
    calls("write_file", path="/mnt/user-data/outputs/a.md", content="鹿"),
    result("write_file", "Wrote it.\n" + "x" * 2_000),
    result("look", "no", id="r2", status="error"),
    HumanMessage("The plan is open.", additional_kwargs={REMINDER: True}),
    AIMessage("Done.", id="a2"),
]


def test_the_whole_text_as_markdown() -> None:
    text = markdown(PAST)
    assert "## User\n\nWrite it." in text
    assert '- called write_file: {"path": "/mnt/user-data/outputs/a.md", "content": "鹿"}' in text
    assert "x" * 2_000 in text
    assert "### Result of look, failed\n\nno" in text
    assert "## Note to the agent\n\nThe plan is open." in text
    assert text.endswith("## Agent\n\nDone.\n")


def test_a_summariser_is_shown_head_and_tail_of_long_results() -> None:
    entry = brief(PAST)[2]
    assert len(entry) < 1_100
    assert "characters …]" in entry


async def test_it_is_stored_where_listings_do_not_look() -> None:
    run = run_context()
    path = await stored(PAST, run, 3)
    assert path == "/mnt/user-data/workspace/.history/3.md"
    files = await run.sandbox()
    assert (await files.read(path)).decode() == markdown(PAST)
    assert await files.listdir("/mnt/user-data/workspace") == []
    [hit] = await files.grep("Done", path="/mnt/user-data/workspace/.history")
    assert hit.path == path


async def test_children_write_beside_each_other() -> None:
    child = run_context().child("task:a/1", "scripted", 5)
    assert await stored(PAST, child, 1) == "/mnt/user-data/workspace/.history/task_a_1-1.md"


async def test_a_sandbox_that_takes_no_file_is_no_failure() -> None:
    class Full(InMemoryProvider):
        async def acquire(self, *args: Any, **more: Any) -> Any:
            raise SandboxError("The disk is full.")

    assert await stored(PAST, run_context(provider=Full()), 1) is None


def test_facts_are_delegations_and_files() -> None:
    task = {"description": "Count\ndeer", "status": "completed", "result": "There are 12."}
    text = facts({"t": task}, PAST, ["/mnt/user-data/outputs/b.md"])
    assert "- Count?deer (completed): There are 12." in text
    assert "## Files written\n\n- /mnt/user-data/outputs/a.md" in text
    assert "## Files delivered\n\n- /mnt/user-data/outputs/b.md" in text
    assert facts({}, [user("hi")], []) == ""


def test_the_newest_delegations_are_told_within_bounds() -> None:
    many = {
        str(n): {"description": f"Part {n}", "status": "completed", "result": "r" * 500}
        for n in range(50)
    }
    text = facts(many, [], [])
    assert len(text) < DELEGATED + 100
    assert "Part 49" in text
    assert "Part 0 " not in text


def test_text_is_cut_at_the_end_of_a_line() -> None:
    assert clipped("one\ntwo\nthree", 100) == "one\ntwo\nthree"
    assert clipped("one\ntwo\nthree", 12) == "one\ntwo\n…"
    assert len(clipped("x" * 50, 20)) == 20
