"""Row 21: the model sees a bounded part, the whole stays readable."""

from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.types import Command

from deerflow.agent.build import AgentParts, build_agent
from deerflow.agent.context import RunContext
from deerflow.config.schema import ToolOutputConfig
from deerflow.errors import SandboxError
from deerflow.middlewares.tool_error_handling import ToolErrorHandlingMiddleware
from deerflow.middlewares.tool_output_budget import SPILL, ToolOutputBudgetMiddleware
from deerflow.models.scripted import ScriptedChatModel
from deerflow.sandbox.inmemory import InMemoryProvider, InMemorySandbox
from deerflow.sandbox.protocol import FileInfo, ThreadFolders
from fakes.rows import call_tool, request, run_context, tool, user

ROW = ToolOutputBudgetMiddleware(config=ToolOutputConfig())


async def answer(
    value: Any,
    name: str = "fetch",
    run: RunContext | None = None,
    row: ToolOutputBudgetMiddleware = ROW,
) -> Any:
    run = run or run_context()

    async def effect() -> Any:
        return value

    return await call_tool([row], run, request(tool(name), run), effect)


async def test_p02_a_huge_answer_is_bounded_and_the_whole_is_readable_in_slices() -> None:
    text = "".join(f"line {n:07}\n" for n in range(93_345))[:1_213_479]
    run = run_context()
    message = await answer(text, run=run)
    assert len(text) == 1_213_479
    assert len(message.content) < 3_500
    assert message.content.startswith(text[:2000])
    assert text[-1000:] in message.content
    assert "1,210,479 of 1,213,479 characters left out" in message.content
    path = message.additional_kwargs[SPILL]
    assert path.startswith("/mnt/user-data/workspace/.tool-results/fetch-")
    assert path in message.content
    sandbox = await run.sandbox()
    assert (await sandbox.read(path)).decode() == text
    assert await sandbox.read(path, offset=600_000, length=13) == text[600_000:600_013].encode()
    assert run.provider.sandboxes["key"].commands == [], "no shell was started for it"


async def test_p02_the_file_is_no_deliverable() -> None:
    run = run_context()
    await answer("x" * 20_000, run=run)
    sandbox = await run.sandbox()
    assert [info.path for info in await sandbox.listdir("/mnt/user-data/workspace")] == []
    assert await sandbox.glob("**/*", path="/mnt/user-data") == []


async def test_p02_a_huge_tool_answer_leaves_a_thread_that_goes_on() -> None:
    async def huge() -> str:
        return "x" * 1_213_479

    model = ScriptedChatModel(script=[{"calls": [{"name": "huge", "args": {}}]}, "one", "two"])
    rows = [ROW, ToolErrorHandlingMiddleware()]
    graph = build_agent(AgentParts(model, [tool("huge", huge)], "You help.", rows))
    run = run_context()
    state = await graph.ainvoke({"messages": [user("go", id=run.input_id)]}, context=run)
    later = run_context(run_id="r2", storage=run.storage, provider=run.provider)
    messages = [*state["messages"], user("and now?", id=later.input_id)]
    state = await graph.ainvoke({"messages": messages}, context=later)
    assert state["messages"][-1].content == "two"
    assert all(len(str(asked.messages)) < 32_000 for asked in model.requests)
    assert state["artifacts"] == [], "the file is nothing that the user asked for"
    path = state["messages"][2].additional_kwargs[SPILL]
    assert await (await later.sandbox()).read(path, offset=1_213_470) == b"x" * 9


async def test_p09_a_stored_text_is_utf_8_whatever_it_holds() -> None:
    run = run_context()
    text = "\u8303\u56f4 \u2014 \u7ed3\u8bba \U0001f600\r\n" * 2_000
    message = await answer(text, run=run)
    stored = await (await run.sandbox()).read(message.additional_kwargs[SPILL])
    assert stored.decode("utf-8") == text
    message = await answer("\ud800" * 20_000, run=run)
    assert (await (await run.sandbox()).read(message.additional_kwargs[SPILL])).startswith(
        b"\\ud800"
    )


async def test_short_answers_pass_as_the_same_object() -> None:
    message = ToolMessage("x" * 12_000, name="fetch", tool_call_id="c-fetch")
    run = run_context()
    assert await answer(message, run=run) is message
    assert not run.sandbox_started


async def test_exempt_tools_and_overrides() -> None:
    long = "x" * 20_000
    assert (await answer(long, "read_file")).content == long
    config = ToolOutputConfig.model_validate(
        {"tool_overrides": {"fetch": {"externalize_min_chars": 10, "preview_head_chars": 3}}}
    )
    row = ToolOutputBudgetMiddleware(config=config)
    assert (await answer("a" * 10, row=row)).content == "a" * 10
    assert (await answer("abc" + "d" * 1100, row=row)).content.startswith("abc\n\n[")
    off = ToolOutputBudgetMiddleware(config=ToolOutputConfig(enabled=False))
    assert (await answer(long, row=off)).content == long


async def test_the_same_text_gives_the_same_answer() -> None:
    run = run_context()
    one, two = await answer("x" * 20_000, run=run), await answer("x" * 20_000, run=run)
    assert one.content == two.content


async def test_a_name_of_a_stranger_stays_inside_the_folder() -> None:
    message = await answer("x" * 20_000, "mcp/../../etc")
    assert message.additional_kwargs[SPILL].count("/") == 5
    assert ".." not in message.additional_kwargs[SPILL]


async def test_what_the_tool_has_spilled_itself_is_not_stored_twice() -> None:
    spilled = ToolMessage(
        "y" * 19_000, name="bash", tool_call_id="c-bash", additional_kwargs={SPILL: "/mnt/x.txt"}
    )
    run = run_context()
    message = await answer(spilled, "bash", run)
    assert "/mnt/x.txt" in message.content
    assert len(message.content) < 3_500
    assert not run.sandbox_started


async def test_messages_inside_a_command_are_bounded_and_the_update_kept() -> None:
    inner = ToolMessage("z" * 20_000, name="fetch", tool_call_id="c-fetch", status="error")
    command = Command(update={"messages": [inner], "artifacts": ["/mnt/user-data/outputs/a"]})
    bounded = await answer(command)
    [message] = bounded.update["messages"]
    assert len(message.content) < 3_500
    assert message.status == "error"
    assert bounded.update["artifacts"] == ["/mnt/user-data/outputs/a"]


async def test_parts_that_are_no_text_stay_and_the_raw_artifact_goes() -> None:
    image = {"type": "image", "base64": "AA==", "mime_type": "image/png"}
    parts = [{"type": "text", "text": "a" * 9_000}, image, {"type": "text", "text": "b" * 9_000}]
    message = await answer(
        ToolMessage(parts, name="fetch", tool_call_id="c-fetch", artifact={"raw": "a" * 9_000})
    )
    assert message.content[1:] == [image]
    assert len(message.content[0]["text"]) < 3_500
    assert message.artifact is None


class FullDisk(InMemorySandbox):
    async def write(self, path: str, data: bytes, *, expect_sha256: str | None = None) -> FileInfo:
        raise SandboxError("The disk limit is reached.")


class FullDiskProvider(InMemoryProvider):
    async def acquire(self, key: str, folders: ThreadFolders, *, cwd: str = "") -> InMemorySandbox:
        plain = await super().acquire(key, folders, cwd=cwd)
        return FullDisk(plain.paths)


async def test_when_the_disk_refuses_the_text_is_cut() -> None:
    run = run_context(provider=FullDiskProvider())
    message = await answer("x" * 29_000, run=run)
    assert message.content == "x" * 29_000, "up to fallback_max_chars it may stay"
    message = await answer("x" * 31_000, run=run)
    assert len(message.content) < 11_500
    assert "could not be stored" in message.content
    assert SPILL not in message.additional_kwargs
