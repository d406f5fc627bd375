"""P15: what only a provider may see again survives compaction, saving, reloading and children."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from deerflow.config.schema import AppConfig
from deerflow.runtime.request import RunRequest, RunResult
from deerflow.wiring.harness import Harness, open_harness
from fakes.harness import SCRIPTED, loaded
from fakes.openai_endpoint import (
    Body,
    Call,
    OpenAIEndpoint,
    Turn,
    legal_transcript,
    needs_reasoning,
    needs_signatures,
)

STEPS = 25
CHILD = "Count the deer in the north."


def demand(body: Body) -> str | None:
    signed = needs_signatures({"write_file": "SIG/+=", "task": "SIG/task="})
    return needs_reasoning(body) or signed(body) or legal_transcript(body)


def is_child(body: Body) -> bool:
    asked = [str(m["content"]) for m in body["messages"] if m["role"] == "user"]
    return any(text.startswith(CHILD) for text in asked)


def working(*, delegates: bool = False) -> Callable[[Body], Turn]:
    """Replies: so many steps that each think and write, for the lead and for a child of its own."""
    done = {"lead": 0, "child": 0}

    def respond(body: Body) -> Turn:
        who = "child" if is_child(body) else "lead"
        done[who] += 1
        number = done[who]
        if who == "lead" and delegates and number == STEPS // 2:
            args = {"description": "count", "prompt": CHILD, "subagent_type": "general-purpose"}
            return Turn(
                reasoning="lead-thought: ask", calls=[Call("task", args, signature="SIG/task=")]
            )
        if number % STEPS == 0:
            return Turn(text=f"The {who} is done.")
        path = f"/mnt/user-data/workspace/{who}{number}.md"
        args = {"path": path, "content": f"{number} " + "deer " * 100}
        return Turn(
            reasoning=f"{who}-thought: {number}",
            calls=[Call("write_file", args, signature="SIG/+=")],
        )

    return respond


def config(first: OpenAIEndpoint, second: OpenAIEndpoint) -> AppConfig:
    def served(name: str, endpoint: OpenAIEndpoint, window: int | None) -> dict[str, Any]:
        facts = {"model": f"openai:{name}", "base_url": endpoint.base_url, "api_key": "k"}
        return {"name": name, "context_window": window, **facts}

    writer = {"name": "writer", "use": SCRIPTED, "script": [{"text": "Noted.", "times": 999}]}
    return AppConfig.model_validate(
        {
            "models": [served("one", first, 8_000), served("two", second, 128_000), writer],
            "database": {"backend": "sqlite"},
            "sandbox": {"use": "memory"},
            "memory": {"enabled": False},
            "summarization": {"model_name": "writer", "trim_tokens_to_summarize": None},
        }
    )


async def ask(harness: Harness, task: str, **request: Any) -> RunResult:
    handle = await harness.runs.start(RunRequest(task=task, thread_id="t", **request))
    return await handle.result()


async def compactions(harness: Harness) -> list[dict[str, Any]]:
    thread = await harness.storage.threads.get("local", "t")
    assert thread is not None
    log = await harness.storage.events.read(thread.thread_key)
    return [event.payload for event in log if event.type == "compacted"]


def thoughts(body: Body) -> list[str]:
    return [m["reasoning_content"] for m in body["messages"] if m.get("reasoning_content")]


async def test_p15_private_fields_survive_compaction_saving_and_a_new_process(
    tmp_path: Path,
) -> None:
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(OpenAIEndpoint(respond=working(), demand=demand))
        two = await stack.enter_async_context(OpenAIEndpoint())
        for _ in range(2):  # each with its own process's worth of memory
            async with open_harness(loaded(config(one, two), tmp_path), {}) as harness:
                result = await ask(harness, "Write them all down.")
                assert (result.status, result.text) == ("success", "The lead is done.")
                told = await compactions(harness)
    assert len(told) >= 2
    first = one.requests[STEPS].body  # the first request after the reload
    last = one.requests[-1].body
    assert thoughts(first)[-1] == f"lead-thought: {STEPS - 1}"
    assert thoughts(last)[-1] == f"lead-thought: {2 * STEPS - 1}"
    assert len(thoughts(last)) < 2 * (STEPS - 1), "it was compacted"


async def test_p15_private_fields_are_dropped_for_another_provider_after_a_compaction(
    tmp_path: Path,
) -> None:
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(OpenAIEndpoint(respond=working(), demand=demand))
        two = await stack.enter_async_context(OpenAIEndpoint(demand=legal_transcript))
        async with open_harness(loaded(config(one, two), tmp_path), {}) as harness:
            await ask(harness, "Write them all down.")
            result = await ask(harness, "Go on.", model="two")
            assert len(await compactions(harness)) >= 1
    assert result.status == "success"
    raw = two.requests[-1].raw.decode()
    assert "earlier-conversation" in raw
    assert "thought" not in raw
    assert "SIG" not in raw


async def test_p15_a_child_keeps_its_own_private_fields_and_sees_none_of_its_parents(
    tmp_path: Path,
) -> None:
    async with AsyncExitStack() as stack:
        served = OpenAIEndpoint(respond=working(delegates=True), demand=demand)
        one = await stack.enter_async_context(served)
        two = await stack.enter_async_context(OpenAIEndpoint())
        async with open_harness(loaded(config(one, two), tmp_path), {}) as harness:
            result = await ask(harness, "Write them all down.")
            told = await compactions(harness)
    assert result.status == "success"
    of_child = [r for r in one.requests if is_child(r.body)]
    assert len(of_child) == STEPS
    assert all("lead-thought" not in request.raw.decode() for request in of_child)
    assert thoughts(of_child[-1].body)[-1] == f"child-thought: {STEPS - 1}"
    assert any("task_id" in one for one in told), "the child compacted too"
    lead = [r for r in one.requests if not is_child(r.body)]
    assert all("child-thought" not in request.raw.decode() for request in lead)
