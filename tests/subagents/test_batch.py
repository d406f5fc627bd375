"""`task_batch` through a whole harness: files in, results out, pauses, stops, and the log."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from deerflow.agent.record import shown
from deerflow.config.schema import BatchConfig, SubagentsConfig
from deerflow.guardrails.approvals import SUPERSEDED_CHILD
from deerflow.middlewares.token_usage import CHILD_USAGE
from deerflow.runtime.request import RunRequest, RunResult
from deerflow.subagents.batch import BATCH, batch_tools
from deerflow.subagents.roster import Roster
from deerflow.wiring.harness import Harness
from fakes.approving import Desk, approve, approving_harness, history, logged, reject, rows, run
from fakes.children import Played, model, played, says
from fakes.documented import fields
from fakes.harness import scripted_harness, scripted_of

NAMES = [f"name-{letter}-end" for letter in "abcde"]

LOCAL = {"use": "local"}


def batch(items: Any, template: str = "script:child Name {item}", **more: Any) -> dict[str, Any]:
    """A call of the tool."""
    args = {"items": items, "prompt_template": template, **more}
    return {"name": "task_batch", "args": args}


def stories(call: dict[str, Any], *child: dict[str, Any]) -> dict[str, Any]:
    return {"lead": [says("", call), says("All done.")], "child": list(child)}


@asynccontextmanager
async def opened(
    home: Path, tale: dict[str, Any], *, tools: tuple[BaseTool, ...] = (), **sections: Any
) -> AsyncGenerator[Harness]:
    async with scripted_harness([], home, tools=tools, models=[model(tale)], **sections) as harness:
        yield harness


def answer_of(result: RunResult) -> ToolMessage:
    [message] = [m for m in result.messages if isinstance(m, ToolMessage)]
    assert message.name == "task_batch"
    return message


def written(home: Path) -> list[dict[str, Any]]:
    """Lines of the only results in a home."""
    [file] = home.glob("users/*/threads/*/user-data/workspace/batches/*")
    return [json.loads(line) for line in file.read_text().splitlines()]


async def lines_of(harness: Harness, path: str, thread_id: str = "t") -> list[dict[str, Any]]:
    thread = await harness.storage.threads.get("local", thread_id)
    assert thread is not None
    sandbox = await harness.provider.acquire(thread.thread_key, _folders(harness, thread))
    text = (await sandbox.read(path)).decode()
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


async def paths_of(harness: Harness) -> list[str]:
    """Results in the workspace of thread "t"."""
    thread = await harness.storage.threads.ensure("local", "t")
    sandbox = await harness.provider.acquire(thread.thread_key, _folders(harness, thread))
    return [f.path for f in await sandbox.listdir("/mnt/user-data/workspace/batches")]


def _folders(harness: Harness, thread: Any) -> Any:
    return harness.runs._parts.folders("local", thread.thread_key)  # type: ignore[attr-defined]


async def test_items_of_a_list_become_lines_in_their_order(tmp_path: Path) -> None:
    tale = stories(batch(NAMES), says("Answer."))
    async with opened(tmp_path, tale) as harness:
        done = await played(harness)
        answer = answer_of(done.result)
        facts = answer.additional_kwargs[BATCH]
        lines = await lines_of(harness, facts["path"])
        requests = scripted_of(harness).requests
    assert lines == [
        {"index": n, "item": name, "status": "done", "result": "Answer.", "error": None}
        for n, name in enumerate(NAMES)
    ]
    assert facts["path"].startswith("/mnt/user-data/workspace/batches/batch-")
    assert {k: facts[k] for k in ("total", "done", "failed")} == {
        "total": 5,
        "done": 5,
        "failed": 0,
    }
    assert answer.text == (
        "5 items: 5 done, 0 failed. Results in input order, one JSON line per item (index from 0, "
        f"item, status, result, error): {facts['path']}"
    )
    assert shown(answer)["additional_kwargs"][BATCH] == facts
    for name in NAMES:
        [request] = [r for r in requests if f"Name {name}" in r.messages[-1].text]
        sent = "".join(message.text for message in request.messages)
        assert not any(other in sent for other in NAMES if other != name)
        assert "task_batch" not in request.tool_names


async def test_a_file_keeps_the_leads_context_small(tmp_path: Path) -> None:
    sizes: list[int] = []
    for total in (5, 300):
        file = tmp_path / f"{total}" / "people.csv"
        file.parent.mkdir()
        rows = "".join(f"person {n},{n}\n" for n in range(total))
        file.write_text(f"name,age\n{rows}", encoding="utf-8")
        call = batch("/mnt/user-data/uploads/people.csv", "script:child {name} is {age}")
        async with opened(file.parent, stories(call, says("Noted.")), sandbox=LOCAL) as harness:
            done = await played(harness, uploads=(file,))
            facts = answer_of(done.result).additional_kwargs[BATCH]
            lines = await lines_of(harness, facts["path"])
        assert [line["item"] for line in lines] == [
            {"name": f"person {n}", "age": str(n)} for n in range(total)
        ]
        assert "/batches/people-" in facts["path"]
        sizes.append(sum(len(m.model_dump_json()) for m in done.result.messages))
        assert len(done.of("batch_progress")) <= 20
    assert sizes[1] - sizes[0] < 50, "only the digits of the counts differ"


async def test_the_log_has_progress_audit_and_failures_of_items_and_no_more(tmp_path: Path) -> None:
    async def broken() -> str:
        """Break."""
        raise ValueError("it broke")

    calls = {"name": "broken", "args": {}}, {"name": "ls", "args": {"path": "/mnt/user-data"}}
    tools = (StructuredTool.from_function(coroutine=broken, name="broken"),)
    tale = stories(batch(NAMES), {**says("", *calls), "when": "name-a"}, says("fine"))
    async with opened(tmp_path, tale, tools=tools) as harness:
        done = await played(harness)
    children = [e for e in done.events if "task_id" in e.payload and e.type != "audit"]
    assert {e.type for e in children} == {"task_running"}
    [failure] = children
    assert failure.payload["task_id"].endswith(".0")
    assert "it broke" in failure.payload["message"]["content"]
    always, optional = fields()["batch_progress"]
    assert optional == set()
    assert [set(payload) for payload in done.of("batch_progress")] == [always] * len(NAMES)


async def test_failures_are_told_briefly_and_the_rest_goes_on(tmp_path: Path) -> None:
    bad = [f"bad {'x' * 300} {n}" for n in range(20)]
    failing = {"error": {"code": "request", "message": "no " * 90}, "when": "bad", "times": 999}
    async with opened(tmp_path, stories(batch([*NAMES, *bad]), failing, says("ok"))) as harness:
        done = await played(harness)
        answer = answer_of(done.result)
        lines = await lines_of(harness, answer.additional_kwargs[BATCH]["path"])
        asked = [r for r in scripted_of(harness).requests if "Name bad" in r.messages[-1].text]
    assert [line["status"] for line in lines] == ["done"] * 5 + ["failed"] * 20
    assert {line["error"]["code"] for line in lines[5:]} == {"model_request"}
    assert len(asked) == 2 * 20, "each failed item is retried once"
    assert answer.text.startswith("25 items: 5 done, 20 failed.")
    assert "- item 5 (bad xxx" in answer.text and answer.text.endswith("- and 15 more")
    assert len(answer.text) < 1_200


async def test_a_child_that_meets_its_limit_hands_in_what_it_has(tmp_path: Path) -> None:
    reads = says("I found 7.", {"name": "ls", "args": {"path": "/mnt/user-data"}})
    tale = stories(batch(["a"], max_turns=1), reads, says("never"))
    async with opened(tmp_path, tale) as harness:
        done = await played(harness)
        path = answer_of(done.result).additional_kwargs[BATCH]["path"]
        [line] = await lines_of(harness, path)
    assert line["status"] == "done"
    assert "I found 7." in line["result"]
    assert line["error"] == {"code": "stopped", "message": "Stopped by max_turns: not finished."}


async def test_a_retry_takes_effects_and_paid_replies_from_the_journal(tmp_path: Path) -> None:
    effects: list[str] = []

    async def mark(place: str) -> str:
        """Leave a mark."""
        effects.append(place)
        return "marked"

    tale = stories(
        batch(["a", "b"]),
        says("", {"name": "mark", "args": {"place": "x"}}),
        {"error": "request", "when": "Name b"},
        says("fine"),
    )
    tools = (StructuredTool.from_function(coroutine=mark, name="mark"),)
    async with opened(tmp_path, tale, tools=tools) as harness:
        done = await played(harness)
    answer = answer_of(done.result)
    assert answer.text.startswith("2 items: 2 done")
    assert effects == ["x", "x"], "one for each item, none for the retry"
    usage = done.result.usage["by_caller"]
    assert usage["general-purpose"]["calls"] == 4
    assert answer.additional_kwargs[CHILD_USAGE]["total"]["calls"] == 4
    assert done.result.usage["total"]["calls"] == 6


async def test_the_retry_of_an_item_without_an_answer_asks_again(tmp_path: Path) -> None:
    tale = stories(batch(["a", "b"]), says(""))
    async with opened(tmp_path, tale) as harness:
        done = await played(harness)
        asked = [r for r in scripted_of(harness).requests if "script:child" in r.messages[1].text]
    assert answer_of(done.result).text.startswith("2 items: 0 done, 2 failed")
    assert len(asked) == 2 * 2 * 2, "two attempts, each asked once more"
    assert done.result.usage["by_caller"]["general-purpose"]["calls"] == 8


async def test_an_item_that_waits_holds_up_no_other(tmp_path: Path) -> None:
    desk = Desk()
    delete = {"name": "delete", "args": {"what": "x"}}
    child = [says("", {**delete, "args": {"what": "b"}}, {"name": "look", "args": {"what": "c"}})]
    tale: dict[str, Any] = {
        "lead": [says("", batch(["ask one", "easy", "ask two"], "{item} script:child"))],
        "child": [{**child[0], "when": "ask"}, says("done")],
    }
    tale["lead"].append(says("All done."))
    async with approving_harness(tale, tmp_path, desk, sandbox=LOCAL) as harness:
        result = await run(harness, "script:lead go")
        assert result.status == "interrupted"
        assert desk.done == ["look c", "look c"]
        pending = await rows(harness)
        assert len(pending) == 2
        assert {row.namespace.rpartition(".")[2] for row in pending} == {"0", "2"}
        last = (await logged(harness, "batch_progress"))[-1]
        assert (last["done"], last["waiting"]) == (1, 2)
        lines = written(tmp_path)
        assert [line["status"] for line in lines] == ["waiting", "done", "waiting"]
        await approve(harness, pending[0])
    async with approving_harness(
        tale, tmp_path, desk, sandbox=LOCAL
    ) as harness:  # a restarted process
        result = await run(harness)
        assert result.status == "interrupted", "one is not decided yet"
        assert desk.done == ["look c", "look c", "delete b"]
        [left] = await rows(harness)
        await reject(harness, left, "keep it")
        result = await run(harness)
        assert (result.status, result.text) == ("success", "All done.")
        assert desk.done == ["look c", "look c", "delete b"], "nothing ran twice"
        lines = written(tmp_path)
        assert [line["status"] for line in lines] == ["done"] * 3
        assert result.usage["by_caller"]["general-purpose"]["calls"] == 5
        assert len(await logged(harness, "approval_requested")) == 2


async def test_a_message_while_items_wait_closes_the_batch(tmp_path: Path) -> None:
    desk = Desk()
    asks = says("", {"name": "delete", "args": {"what": "b"}})
    tale: dict[str, Any] = {
        "lead": [says("", batch(["ask", "easy"], "{item} script:child"))],
        "child": [{**asks, "when": "ask"}, says("done")],
        "next": [says("Something else.")],
    }
    async with approving_harness(tale, tmp_path, desk) as harness:
        assert (await run(harness, "script:lead go")).status == "interrupted"
        result = await run(harness, "script:next other")
        assert (result.status, result.text) == ("success", "Something else.")
        assert len(await rows(harness, "superseded")) == 1
        [closed] = [m for m in await history(harness) if m.type == "tool"]
    assert closed.text == SUPERSEDED_CHILD
    assert desk.done == []


async def test_a_stop_leaves_a_whole_file_and_a_resume_does_the_rest(tmp_path: Path) -> None:
    started, go = asyncio.Event(), asyncio.Event()
    running: list[str] = []

    async def wait_here() -> str:
        """Wait."""
        running.append("x")
        started.set()
        try:
            await go.wait()
        finally:
            running.pop()
        return "waited"

    slow = {**says("", {"name": "wait_here", "args": {}}), "when": "slow"}
    tale = stories(batch(["a", "slow", "c", "d", "slow too", "f"]), slow, says("fine"))
    tools = (
        StructuredTool.from_function(
            coroutine=wait_here, name="wait_here", metadata={"deerflow": {"idempotent": True}}
        ),
    )
    config = {"batch": {"concurrency": 1}}
    async with opened(tmp_path, tale, tools=tools, **config) as harness:
        handle = await harness.runs.start(RunRequest(task="script:lead go", thread_id="t"))
        await started.wait()
        handle.cancel()
        async with asyncio.timeout(2):
            result = await handle.result()
        assert (result.status, running) == ("cancelled", [])
        path = (await paths_of(harness))[0]
        lines = await lines_of(harness, path)
        assert [line["status"] for line in lines] == ["done", *["pending"] * 5]
        go.set()
        handle = await harness.runs.start(RunRequest(thread_id="t", resume=True))
        result = await handle.result()
        assert result.text == "All done."
        lines = await lines_of(harness, path)
        assert [line["result"] for line in lines] == ["fine"] * 6
        assert result.usage["by_caller"]["general-purpose"]["calls"] == 8


async def test_results_that_cannot_be_written_are_not_paid_twice(tmp_path: Path) -> None:
    sections: dict[str, Any] = {"database": {"backend": "sqlite"}, "sandbox": LOCAL}
    tale = {"lead": [says("", batch(["a", "b"])), says("No room.")], "child": [says("fine")]}
    async with opened(tmp_path, tale, **sections) as harness:
        thread = await harness.storage.threads.ensure("local", "t")
        workspace = _folders(harness, thread).workspace
        workspace.mkdir(parents=True)
        (workspace / "batches").write_text("in the way")
        told = answer_of((await played(harness)).result).text
    assert told.startswith("Error: All 2 items were run, but their results cannot be written")
    (workspace / "batches").unlink()
    [name] = re.findall("batch:[0-9a-f]{32}", told)
    tale = {
        "lead": [says("", batch(name), batch("batch:other")), says("Here.")],
        "child": [says("twice")],
    }
    async with opened(tmp_path, tale, **sections) as harness:
        done = await played(harness)
        written, unknown = [m for m in done.result.messages[1:] if m.type == "tool"]
        lines = await lines_of(harness, written.additional_kwargs[BATCH]["path"])
        requests = len(scripted_of(harness).requests)
    assert [line["result"] for line in lines] == ["fine", "fine"]
    assert "There is no 'batch:other' here." in unknown.text
    assert requests == 2, "no child ran again"
    assert "general-purpose" not in done.result.usage["by_caller"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (batch([]), "The list holds no item."),
        (batch("[]"), "The list holds no item."),
        (batch('["a",'), "`items` is broken JSON"),
        (batch(["a"] * 8), "The list holds 8 items, more than 7 (batch.max_items)."),
        (batch("/mnt/user-data/workspace/nothing.csv"), "nothing.csv does not exist"),
        (batch("/etc/passwd"), "/etc/passwd"),
        (batch(["a"], "Do {thing}"), "the placeholder {thing}"),
        (batch(["a"], subagent_type="nurse"), "no kind of child named 'nurse'. Kinds: general-pur"),
        (batch(["a"], max_turns=0), "at least one model turn"),
        (batch(7), "the arguments of task_batch do not fit"),
    ],
)
async def test_bad_calls_are_refused_before_anything_starts(
    tmp_path: Path, call: dict[str, Any], said: str
) -> None:
    tale = stories(call, says("never"))
    async with opened(tmp_path, tale, batch={"max_items": 7}) as harness:
        done = await played(harness)
        count = len(scripted_of(harness).requests)
    answer = answer_of(done.result)
    assert answer.status == "error"
    assert said in answer.text
    assert count == 2, "no child ran"


async def test_a_list_that_came_as_text_is_taken(tmp_path: Path) -> None:
    async with opened(tmp_path, stories(batch('["a", {"b": 1}]'), says("ok"))) as harness:
        done: Played = await played(harness)
    assert answer_of(done.result).text.startswith("2 items: 2 done")


async def test_two_batches_of_one_turn_keep_apart(tmp_path: Path) -> None:
    tale = stories(batch(["a"]), says("ok"))
    tale["lead"][0] = says("", batch(["a", "b"]), batch(["c"]))
    async with opened(tmp_path, tale) as harness:
        done = await played(harness)
        answers = [m for m in done.result.messages if isinstance(m, ToolMessage)]
        facts = [m.additional_kwargs[BATCH] for m in answers]
        lines = [[x["item"] for x in await lines_of(harness, f["path"])] for f in facts]
    assert lines == [["a", "b"], ["c"]]
    assert done.result.usage["by_caller"]["general-purpose"]["calls"] == 3


def test_the_schema_is_small() -> None:
    config = SubagentsConfig()
    [tool] = batch_tools(None, Roster(config), BatchConfig())  # type: ignore[arg-type]
    schema = convert_to_openai_tool(tool)
    assert len(json.dumps(schema["function"]["parameters"])) < 300
    assert len(json.dumps(schema)) <= 500
    assert set(schema["function"]["parameters"]["required"]) == {"items", "prompt_template"}
