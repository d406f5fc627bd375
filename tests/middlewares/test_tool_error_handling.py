"""Row 23: every failure becomes a result that says how to go on."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import ToolException
from langgraph.errors import GraphInterrupt
from pydantic import BaseModel, ValidationError

from deerflow.errors import PathError, ThreadGoneError, ToolError
from deerflow.middlewares.tool_error_handling import ToolErrorHandlingMiddleware
from fakes.rows import call_tool, request, run_context, tool

ROW = ToolErrorHandlingMiddleware()


async def failing(
    error: BaseException, row: ToolErrorHandlingMiddleware = ROW, **facts: Any
) -> str:
    run = run_context(**facts)

    async def effect() -> None:
        raise error

    message = await call_tool([row], run, request(tool("grep"), run), effect)
    assert message.status == "error"
    assert (message.name, message.tool_call_id) == ("grep", "c-grep")
    return message.content


async def test_our_errors_say_message_and_cure() -> None:
    error = ToolError("The pattern is not valid.", cure="Escape the brackets.")
    assert await failing(error) == "Error: The pattern is not valid. Escape the brackets."
    assert await failing(PathError("'/etc' is outside.")) == "Error: '/etc' is outside."


async def test_wrong_arguments_name_the_field_and_what_is_expected() -> None:
    async def search(pattern: str, limit: int = 5) -> str:
        return ""

    run = run_context()
    target = tool("search", search)

    async def effect(**args: Any) -> None:
        target.tool_call_schema.model_validate(args)

    message = await call_tool([ROW], run, request(target, run, limit="many"), effect)
    assert message.content == (
        "Error: the arguments of search do not fit. `pattern`: Field required; `limit`: Input "
        "should be a valid integer, unable to parse string as an integer (given: 'many'). "
        "Expected: pattern (string, required), limit (integer)."
    )


async def test_a_long_wrong_value_is_not_repeated_in_full() -> None:
    class Shape(BaseModel):
        count: int

    with pytest.raises(ValidationError) as caught:
        Shape.model_validate({"count": "x" * 100_000})
    assert len(await failing(caught.value)) < 400


async def test_an_unknown_failure_shows_its_class_and_no_host_path(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    host = tmp_path / "user-data"
    with caplog.at_level(logging.WARNING):
        said = await failing(
            RuntimeError(f"cannot open {host}/workspace/a.txt nor /home/ann/.ssh/id_rsa"), root=host
        )
    assert said == (
        "Error: grep failed: RuntimeError: cannot open /mnt/user-data/workspace/a.txt nor "
        "(a path of the server). Change the arguments or take another way; do not repeat the same "
        "call."
    )
    assert caplog.records[0].exc_info is not None, "the operator gets the traceback"


@pytest.mark.parametrize(
    "secret",
    [
        "https://api.example/v1?api_key={}&q=1",
        "Authorization: Bearer {}",
        '{{"password": "{}"}}',
        "postgres://bob:{}@db/x",
        "bad key sk-{}",
    ],
)
async def test_no_secret_is_told(secret: str) -> None:
    value = "hunter2hunter2hunter2"
    assert value not in await failing(ValueError(secret.format(value)))


async def test_a_tool_exception_speaks_for_itself_and_long_texts_are_cut() -> None:
    assert "ToolException" not in await failing(ToolException("No such city."))
    assert len(await failing(KeyError("x" * 10_000))) < 800
    assert "KeyError" in await failing(KeyError())


async def test_a_timeout_has_a_cure() -> None:
    assert "took too long" in await failing(TimeoutError())
    run = run_context()

    async def hangs() -> None:
        await asyncio.Event().wait()

    row = ToolErrorHandlingMiddleware(seconds=0.01)
    message = await call_tool([row], run, request(tool("mcp"), run), hangs)
    assert "mcp took too long and was stopped" in message.content


@pytest.mark.parametrize(
    "error",
    [GraphInterrupt(()), ThreadGoneError("gone"), KeyboardInterrupt()],
)
async def test_what_must_end_or_pause_the_run_passes(error: BaseException) -> None:
    with pytest.raises(type(error)):
        await failing(error)


@pytest.mark.parametrize("error", [asyncio.CancelledError(), SystemExit(3)])
async def test_a_tool_that_ends_itself_ends_neither_run_nor_server(error: BaseException) -> None:
    assert "grep ended itself without a result" in await failing(error)


async def test_a_run_that_is_cancelled_stays_cancelled() -> None:
    run = run_context()
    begun = asyncio.Event()

    async def effect() -> None:
        begun.set()
        await asyncio.Event().wait()

    going = asyncio.ensure_future(call_tool([ROW], run, request(tool("grep"), run), effect))
    await begun.wait()
    going.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going
