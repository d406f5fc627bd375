"""The embedded model with its real file: legality, streaming, cancelling, ending."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from deerflow.agent.prompt import PromptFacts, apply_prompt_template
from deerflow.errors import ModelError, NotFoundError, UsageError
from deerflow.models.engine import Engine
from deerflow.models.gguf import SMOLLM2, bundled
from deerflow.models.grammar import Tool, instructions
from deerflow.models.local import LocalChatModel
from deerflow.models.protocol import delta_sink
from fakes.hub import fake_hub
from fakes.llama import embedded_home

NOTE = "/mnt/user-data/outputs/notes.md"
TASK = "Write a short note about deer to notes.md"
SYSTEM = SystemMessage(apply_prompt_template(PromptFacts(compact=True)))
WRITE = {
    "name": "write_file",
    "description": "Write a text file.",
    "parameters": {
        "type": "object",
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
        "required": ["path", "content"],
    },
}


@pytest.fixture(scope="module")
def home() -> Path:
    return embedded_home()


@pytest.fixture(scope="module")
def model(home: Path) -> Iterator[LocalChatModel]:
    yield LocalChatModel(home=home, max_tokens=24)
    LocalChatModel.engine.close()


async def test_a_task_becomes_a_file_and_an_answer(model: LocalChatModel) -> None:
    history: list[BaseMessage] = [SYSTEM, HumanMessage(TASK)]
    reply = await model.bind_tools([WRITE], deliverables=[NOTE]).ainvoke(history)
    (call,) = reply.tool_calls
    assert (call["name"], call["args"]["path"]) == ("write_file", NOTE)
    content = call["args"]["content"]
    assert content.startswith("# Deer\n\n")
    assert content.lower().count("deer") >= 3
    assert 200 < len(content) < 2_000
    points = [line for line in content.splitlines() if line.startswith("- ")]
    assert len(points) == len(set(points)) >= 2
    assert reply.usage_metadata is not None
    assert reply.usage_metadata["output_tokens"] > 50
    assert reply.response_metadata["finish_reason"] == "tool_calls"

    history += [reply, ToolMessage("Wrote 9 lines.", tool_call_id=call["id"], name="write_file")]
    last = await model.bind_tools([WRITE], deliverables=[]).ainvoke(history)
    assert last.tool_calls == []
    assert last.text.startswith("The file is ready: ")


async def test_the_same_request_gives_the_same_words(model: LocalChatModel) -> None:
    one, two = [await model.ainvoke([HumanMessage("Name a colour.")]) for _ in range(2)]
    assert one.text == two.text != ""


async def test_deltas_are_the_answer(model: LocalChatModel) -> None:
    heard: list[tuple[str, str]] = []
    token = delta_sink.set(lambda kind, text: heard.append((kind, text)))
    try:
        reply = await model.ainvoke([HumanMessage("Say hello.")])
    finally:
        delta_sink.reset(token)
    texts = [text for kind, text in heard if kind == "text"]
    assert len(texts) > 1
    assert "".join(texts).strip() == reply.text


async def test_a_stream_adds_up_to_the_answer(model: LocalChatModel) -> None:
    whole = await model.ainvoke([HumanMessage("Say hello.")])
    chunks = [chunk async for chunk in model.astream([HumanMessage("Say hello.")])]
    assert len(chunks) > 2
    assert "".join(chunk.text for chunk in chunks).strip() == whole.text
    assert chunks[-1].response_metadata["finish_reason"] in ("stop", "length")


async def test_a_stream_carries_calls(model: LocalChatModel) -> None:
    bound = model.bind_tools([WRITE], deliverables=[NOTE])
    total = None
    async for chunk in bound.astream([HumanMessage(TASK)]):
        total = chunk if total is None else total + chunk
    assert isinstance(total, AIMessage)
    assert [call["args"]["path"] for call in total.tool_calls] == [NOTE]


ARGUMENT = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "pattern": "^[a-z]{1,5}$"},
        {"type": "string", "format": "date"},
        {"type": "integer", "minimum": 1, "maximum": 9},
        {"type": "number"},
        {"type": "boolean"},
        {"enum": ["low", "high", 3, None]},
        {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        {"type": "array", "items": {"type": "string"}, "minItems": 1},
        {
            "type": "object",
            "properties": {"x": {"type": "integer"}, "y": {"$ref": "#/$defs/Y"}},
            "required": ["x", "y"],
        },
        {"$ref": "#/$defs/Y"},
        {"$ref": "#/$defs/Nowhere"},
        {},
    ]
)
DEFS = {"Y": {"type": "object", "properties": {"z": {"const": "z"}}, "required": ["z"]}}
NAMES = st.sampled_from(["path", "content", "größe", "a b", 'quo"te', "n"])
PARAMETERS = st.builds(
    lambda properties: {
        "type": "object",
        "$defs": DEFS,
        "properties": properties,
        "required": sorted(properties),
    },
    st.dictionaries(NAMES, ARGUMENT, max_size=3),
)


async def _call(model: LocalChatModel, tools: list[dict[str, Any]], choice: str) -> AIMessage:
    bound = model.bind_tools(tools, tool_choice=choice)
    return await bound.ainvoke([HumanMessage("Use a tool, whatever it says.")], max_tokens=40)


@pytest.mark.parametrize("small", [True, False])
def test_no_schema_leads_to_an_illegal_call(home: Path, small: bool) -> None:
    """With and without optional arguments; a cut or impossible call becomes an answer in words."""
    model = LocalChatModel(home=home, small=small, max_tokens=40)
    calls = 0

    @settings(
        max_examples=5,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(st.lists(PARAMETERS, min_size=1, max_size=3))
    def check(parameters: list[dict[str, Any]]) -> None:
        nonlocal calls
        tools = [
            {"name": f"tool_{number}", "description": "Does it.", "parameters": schema}
            for number, schema in enumerate(parameters)
        ]
        reply = asyncio.run(_call(model, tools, "any"))
        assert reply.invalid_tool_calls == []
        for call in reply.tool_calls:
            schema = next(tool for tool in tools if tool["name"] == call["name"])["parameters"]
            Draft202012Validator(schema).validate(call["args"])
            calls += 1

    check()
    assert calls > 0


async def test_a_long_history_is_fitted(home: Path) -> None:
    model = LocalChatModel(home=home, n_ctx=512, max_tokens=16)
    history: list[BaseMessage] = [SYSTEM]
    for number in range(30):
        history += [HumanMessage(f"Tell me about deer, {number}."), AIMessage("They run. " * 20)]
    reply = await model.ainvoke([*history, HumanMessage("Say yes.")])
    assert reply.text
    assert reply.usage_metadata is not None
    assert reply.usage_metadata["input_tokens"] < 512


async def test_scripts_with_many_tokens_per_byte_are_fitted(home: Path) -> None:
    model = LocalChatModel(home=home, n_ctx=512, max_tokens=16)
    reply = await model.ainvoke([HumanMessage("🦌ᚠ\u0f00" * 3_000)])
    assert reply.usage_metadata is not None
    assert reply.usage_metadata["input_tokens"] < 512


async def test_cancelling_stops_the_generation(home: Path, model: LocalChatModel) -> None:
    heard = asyncio.Event()
    token = delta_sink.set(lambda _kind, _text: heard.set())
    endless = LocalChatModel(home=home, max_tokens=100_000)
    task = asyncio.create_task(endless.ainvoke([HumanMessage("Write a very long story. " * 20)]))
    await heard.wait()
    delta_sink.reset(token)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # The thread is free again: 100,000 tokens would take longer than the limit of any test.
    assert (await model.ainvoke([HumanMessage("Say hello.")])).text


async def test_one_model_is_loaded_for_all(home: Path, model: LocalChatModel) -> None:
    await model.ainvoke([HumanMessage("hi")])
    before = LocalChatModel.engine.loads
    others = [LocalChatModel(home=home, max_tokens=16) for _ in range(3)]
    replies = await asyncio.gather(*(other.ainvoke([HumanMessage("hi")]) for other in others))
    assert all(reply.text for reply in replies)
    assert LocalChatModel.engine.loads == before


async def test_a_cut_file_is_refused_before_it_is_loaded(tmp_path: Path, home: Path) -> None:
    broken = bundled(tmp_path)
    broken.parent.mkdir()
    with bundled(home).open("rb") as whole:
        broken.write_bytes(whole.read(1_000_000))
    with pytest.raises(ModelError, match=r"is damaged.*deerflow models pull"):
        await LocalChatModel(home=tmp_path).ainvoke([HumanMessage("hi")])


async def test_a_file_that_llama_cannot_load_is_one_clear_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("xllamacpp", reason="the extra `embedded` is not installed")
    broken = tmp_path / "own.gguf"
    broken.write_bytes(b"GGUF" + b"\0" * 4_000)
    with pytest.raises(ModelError, match=r"own\.gguf could not be loaded"):
        await LocalChatModel(path=broken).ainvoke([HumanMessage("hi")])
    assert capfd.readouterr() == ("", "")


async def test_a_missing_file_names_the_cure(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"is not there.*deerflow models pull"):
        await LocalChatModel(home=tmp_path).ainvoke([HumanMessage("hi")])


async def test_a_file_from_a_hub(tmp_path: Path, home: Path) -> None:
    content = bundled(home).read_bytes()
    async with fake_hub(files={"small.gguf": content}) as hub:
        keys = {"repo": "owner/name", "file": "small.gguf", "endpoint": hub.url}
        model = LocalChatModel(home=tmp_path, max_tokens=16, **keys)
        assert (await model.ainvoke([HumanMessage("hi")])).text
    LocalChatModel.engine.close()
    shutil.rmtree(tmp_path / "models")


async def test_a_file_that_the_hub_lacks(tmp_path: Path) -> None:
    async with fake_hub() as hub:
        model = LocalChatModel(home=tmp_path, repo="a/b", file="c.gguf", endpoint=hub.url)
        with pytest.raises(NotFoundError, match="no c.gguf"):
            await model.ainvoke([HumanMessage("hi")])


@pytest.mark.parametrize(
    "keys", [{"repo": "a/b"}, {"file": "c"}, {"path": "x.gguf", "repo": "a/b", "file": "c"}]
)
def test_keys_that_contradict(keys: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="repo"):
        LocalChatModel(**keys)


def test_there_is_no_sync_twin() -> None:
    with pytest.raises(UsageError, match="async only"):
        LocalChatModel().invoke("hi")


def test_the_compact_request_is_short() -> None:
    names = ("write_file", "read_file", "bash", "present_files", "ask_clarification")
    tools = [
        Tool(name, "A description of one sentence that is as long as those of the tools are.", {})
        for name in names
    ]
    assert len(SYSTEM.text) + len(instructions(tools, may_answer=True)) <= 1_500


PROGRAM = """
import asyncio, sys
from pathlib import Path
from langchain_core.messages import HumanMessage
from deerflow.models.local import LocalChatModel

async def main():
    model = LocalChatModel(home=Path(sys.argv[1]), max_tokens=100_000)
    stream = model.astream([HumanMessage("Write a very long story.")])
    print((await anext(stream)).text)
    if sys.argv[2] == "close":
        await stream.aclose()

asyncio.run(main())
"""


@pytest.mark.parametrize("ending", ["close", "leave"])
def test_the_process_ends_in_mid_answer(home: Path, ending: str) -> None:
    done = subprocess.run(  # fixed arguments
        [sys.executable, "-W", "error", "-c", PROGRAM, str(home), ending],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()
    assert json.dumps(done.stdout).count("\\n") == 1  # llama.cpp's own log is on neither stream


async def test_an_engine_starts_anew_after_close(home: Path) -> None:
    class Own(LocalChatModel):
        """Has an engine of its own."""

        engine = Engine()

    model = Own(home=home, max_tokens=16)
    for expected in (1, 2):
        assert (await model.ainvoke([HumanMessage("hi")])).text
        assert Own.engine.loads == expected
        Own.engine.close()
    assert SMOLLM2.title in str(model.model)


async def test_without_llama_cpp_it_says_so_before_a_file_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(ModelError, match="uv pip install xllamacpp"):
        await LocalChatModel(home=tmp_path).prepare()
