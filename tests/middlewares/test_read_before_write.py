"""Row 20: nothing unseen is overwritten."""

import asyncio
import hashlib
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langgraph.types import Command

from deerflow.agent.context import RunContext
from deerflow.config.schema import ReadBeforeWriteConfig
from deerflow.middlewares.read_before_write import ReadBeforeWriteMiddleware
from fakes.rows import call_tool, request, run_context, tool

ROW = ReadBeforeWriteMiddleware(config=ReadBeforeWriteConfig())
PATH = "/mnt/user-data/workspace/a.txt"


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def change(
    run: RunContext, name: str, state: dict[str, Any] | None = None, **args: Any
) -> Any:
    """Call `write_file` or `str_replace`; the effect writes and reports as the real tools do."""
    sandbox = await run.sandbox()

    async def effect(path: str, content: str, append: bool = False) -> Any:
        old = await sandbox.stat(path)
        before = await sandbox.read(path) if append and old is not None else b""
        await asyncio.sleep(0)  # another call may come in between
        info = await sandbox.write(path, before + content.encode())
        message = ToolMessage("written", name=name, tool_call_id=f"c-{name}")
        return Command(update={"messages": [message], "files_read": {info.path: info.sha256}})

    target = tool(name, sandbox=True)
    return await call_tool([ROW], run, request(target, run, state, **args), effect)


async def content(run: RunContext) -> bytes:
    return await (await run.sandbox()).read(PATH)


@pytest.fixture
async def run() -> RunContext:
    run = run_context()
    await (await run.sandbox()).write(PATH, b"old")
    return run


@pytest.mark.parametrize("name", ["write_file", "str_replace"])
async def test_an_unread_file_is_not_changed(run: RunContext, name: str) -> None:
    answer = await change(run, name, path=PATH, content="new")
    assert answer.status == "error"
    assert "you have not read it" in answer.content
    assert "read_file" in answer.content
    assert await content(run) == b"old"


async def test_a_file_read_in_its_present_version_is_changed(run: RunContext) -> None:
    state = {"messages": [], "files_read": {PATH: sha(b"old")}}
    answer = await change(run, "write_file", state, path=PATH, content="new")
    assert isinstance(answer, Command)
    assert await content(run) == b"new"


async def test_a_relative_path_is_the_same_file(run: RunContext) -> None:
    state = {"messages": [], "files_read": {PATH: sha(b"old")}}
    assert isinstance(await change(run, "write_file", state, path="a.txt", content="n"), Command)


async def test_a_relative_path_starts_where_the_shell_stands(run: RunContext) -> None:
    await (await run.sandbox()).write("/mnt/user-data/outputs/b.txt", b"old")
    state = {"messages": [], "sandbox": {"cwd": {"lead": "/mnt/user-data/outputs"}}}
    answer = await change(run, "write_file", state, path="b.txt", content="new")
    assert answer.status == "error"
    assert "/mnt/user-data/outputs/b.txt exists" in answer.content


async def test_append_false_as_text_is_no_append(run: RunContext) -> None:
    answer = await change(run, "write_file", path=PATH, content="new", append="false")
    assert answer.status == "error"


async def test_a_file_that_changed_since_must_be_read_again(run: RunContext) -> None:
    state = {"messages": [], "files_read": {PATH: sha(b"older")}}
    answer = await change(run, "write_file", state, path=PATH, content="new")
    assert "has changed since you read it" in answer.content
    assert await content(run) == b"old"


async def test_new_files_are_free_and_own_writes_count_as_read(run: RunContext) -> None:
    path = "/mnt/user-data/outputs/new.md"
    for text in ("one", "two"):
        assert isinstance(await change(run, "write_file", path=path, content=text), Command)


async def test_two_edits_of_one_file_in_one_turn_both_count(run: RunContext) -> None:
    state = {"messages": [], "files_read": {PATH: sha(b"old")}}
    answers = await asyncio.gather(
        *(change(run, "str_replace", state, path=PATH, content=text) for text in ("one", "two"))
    )
    assert all(isinstance(answer, Command) for answer in answers)
    assert await content(run) == b"two"


async def test_a_read_in_the_same_run_counts_before_the_state_knows(run: RunContext) -> None:
    async def read(path: str) -> Any:
        message = ToolMessage("old", name="read_file", tool_call_id="c-read_file")
        return Command(update={"messages": [message], "files_read": {PATH: sha(b"old")}})

    await call_tool([ROW], run, request(tool("read_file"), run, path=PATH), read)
    assert isinstance(await change(run, "write_file", path=PATH, content="new"), Command)


async def test_appending_is_free_but_shows_nothing_of_the_old_part(run: RunContext) -> None:
    answer = await change(run, "write_file", path=PATH, content=" more", append=True)
    assert answer.update["files_read"] == {}
    assert await content(run) == b"old more"
    answer = await change(run, "write_file", path=PATH, content="new")
    assert answer.status == "error"


async def test_an_empty_file_holds_nothing_that_could_be_lost(run: RunContext) -> None:
    path = "/mnt/user-data/outputs/empty.md"
    await (await run.sandbox()).write(path, b"")
    assert isinstance(await change(run, "write_file", path=path, content="new"), Command)


async def test_bad_paths_are_left_to_the_tool(run: RunContext) -> None:
    reached: list[Any] = []

    async def effect(path: Any = None) -> str:
        reached.append(path)
        return "the tool's own error"

    for path in ("/etc/passwd", "/mnt/user-data/workspace", 7, ""):
        await call_tool([ROW], run, request(tool("write_file"), run, path=path), effect)
    assert reached == ["/etc/passwd", "/mnt/user-data/workspace", 7, ""]


async def test_it_can_be_switched_off(run: RunContext) -> None:
    off = ReadBeforeWriteMiddleware(config=ReadBeforeWriteConfig(enabled=False))

    async def effect(path: str) -> str:
        return "written"

    answer = await call_tool([off], run, request(tool("write_file"), run, path=PATH), effect)
    assert answer.content == "written"
