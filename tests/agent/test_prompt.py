"""The prompt: byte-stable, small, and kept as golden files with the whole first request."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from langchain_core.utils.function_calling import convert_to_openai_tool

from deerflow.agent.prompt import PromptFacts, apply_prompt_template
from deerflow.config.schema import AppConfig
from deerflow.lead.graphs import COMPACT_TOOLS
from deerflow.models.grammar import Tool, instructions
from deerflow.runtime.request import RunRequest
from deerflow.tools.registry import builtin_tools
from deerflow.wiring.harness import open_harness
from fakes.harness import loaded
from fakes.openai_endpoint import Call, OpenAIEndpoint, Received, Turn

BODY, SYSTEM, SCHEMAS, COMPACT = 8_000, 3_500, 5_000, 1_500
PACKAGES = (
    "sympy 1.14.0, numpy 2.3.4, pandas 2.3.3, matplotlib 3.10.7, openpyxl 3.1.5, "
    "python-docx 1.2.0, python-pptx 1.0.2, pypdf 6.1.3, pillow 12.0.0"
)
PYTHON = f"Python 3.11 with {PACKAGES}"
TASK = "What do deer eat?"
DATE = re.compile(r"\w+day, \d{4}-\d{2}-\d{2}")

Golden = Callable[[str, str], None]


async def requests(home: Path, *tasks: str, turns: Sequence[Turn] = ()) -> list[Received]:
    """What the wire sees of a thread; after the given turns the model answers each task at once."""
    async with OpenAIEndpoint(*turns, default=Turn(text="Done.")) as endpoint:
        config = AppConfig.model_validate(
            {
                "models": [
                    {
                        "name": "m",
                        "model": "openai:gpt",
                        "base_url": endpoint.base_url,
                        "api_key": "k",
                        "supports_vision": True,
                    }
                ],
                "database": {"backend": "memory"},
                "sandbox": {"use": "memory"},
            }
        )
        async with open_harness(loaded(config, home), {}) as harness:
            for task in tasks:
                handle = await harness.runs.start(RunRequest(task=task, thread_id="t"))
                assert (await handle.result()).status == "success"
        return list(endpoint.requests)


def compact_text() -> str:
    """System text and tools as the embedded model is told of them."""
    tools = [
        Tool.from_openai(convert_to_openai_tool(tool))
        for tool in builtin_tools()
        if tool.name in COMPACT_TOOLS
    ]
    return "\n\n".join(
        (apply_prompt_template(PromptFacts(compact=True)), instructions(tools, may_answer=True))
    )


def test_the_prompt_is_the_golden_file(golden: Golden) -> None:
    full = apply_prompt_template(PromptFacts(sandbox_python=PYTHON))
    golden("system_prompt.md", f"# Full\n\n{full}\n\n# Compact\n\n{compact_text()}\n")


def test_the_prompt_is_small() -> None:
    assert len(apply_prompt_template(PromptFacts(sandbox_python=PYTHON))) <= SYSTEM
    assert len(compact_text()) <= COMPACT


@pytest.mark.parametrize(
    "facts",
    [
        PromptFacts(),
        PromptFacts(compact=True, instructions="Be brief."),
        PromptFacts(network=("example.org", "example.com"), agent_name="Ada", instructions="X"),
    ],
)
def test_the_same_facts_give_the_same_bytes(facts: PromptFacts) -> None:
    assert apply_prompt_template(facts).encode() == apply_prompt_template(facts).encode()


@pytest.mark.parametrize(
    ("facts", "shown"),
    [
        (PromptFacts(network="deny"), "with no network"),
        (PromptFacts(network="allow"), "with network access;"),
        (PromptFacts(network=("a.org", "b.org")), "network access to a.org, b.org only"),
        (PromptFacts(sandbox_python=PYTHON), PYTHON),
        (PromptFacts(agent_name="Ada"), "You are Ada,"),
        (PromptFacts(may_ask=False), "task first. Nobody can answer questions"),
        (PromptFacts(instructions="Be brief."), "## Instructions\nBe brief."),
        (PromptFacts(compact=True, instructions="Be brief."), "\n\nBe brief."),
    ],
)
def test_each_fact_is_told(facts: PromptFacts, shown: str) -> None:
    assert shown in apply_prompt_template(facts)
    assert shown not in apply_prompt_template(PromptFacts(network=()))


def test_without_questions_no_tool_for_them_is_named() -> None:
    assert "ask_clarification" not in apply_prompt_template(PromptFacts(may_ask=False))


async def test_the_first_request_is_the_golden_file_and_small(
    tmp_path: Path, golden: Golden
) -> None:
    (first,) = await requests(tmp_path, TASK)
    assert len(first.raw) <= BODY
    assert (
        len(json.dumps(first.body["tools"], ensure_ascii=False, separators=(",", ":"))) <= SCHEMAS
    )
    assert first.messages[0]["role"] == "system"
    assert len(first.messages[0]["content"]) <= SYSTEM
    text = json.dumps(first.body, indent=1, ensure_ascii=False)
    golden("first_request.json", DATE.sub("DATE", text) + "\n")


async def test_each_request_begins_with_the_bytes_of_the_one_before(tmp_path: Path) -> None:
    """Providers cache by prefix: system text, tools and earlier messages must not move."""
    sums = [Call("calculator", {"expression": f"{number}+1"}) for number in (1, 2)]
    turns = [Turn(calls=sums), Turn(text="Two and three."), Turn(calls=[Call("ls")])]
    sent = await requests(tmp_path, TASK, "And elks?", "And both?", turns=turns)
    assert len(sent) == 5
    for before, after in pairwise(sent):
        assert _bytes(after.body["tools"]) == _bytes(before.body["tools"])
        assert list(after.body) == list(before.body)
        count = len(before.messages)
        assert _bytes(after.messages[:count]) == _bytes(before.messages)
        assert after.messages[count]["role"] == "assistant"


async def test_another_home_gets_the_same_bytes(tmp_path: Path) -> None:
    (one,) = await requests(tmp_path / "one", TASK)
    (other,) = await requests(tmp_path / "other", TASK)
    assert DATE.sub("DATE", one.raw.decode()) == DATE.sub("DATE", other.raw.decode())


def _bytes(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
