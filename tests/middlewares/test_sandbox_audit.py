"""Row 19: on record before the effect, without contents."""

import json

import pytest

from deerflow.middlewares.sandbox_audit import SandboxAuditMiddleware
from fakes.rows import call_tool, events, request, run_context, tool

ROW = SandboxAuditMiddleware()
BASH = tool("bash", sandbox=True)


async def test_the_entry_says_who_and_what_and_stands_before_the_effect() -> None:
    run = run_context()
    seen: list[int] = []

    async def effect(path: str, content: str) -> str:
        seen.append(len(await events(run, "audit")))
        return "done"

    args = {"path": "/mnt/user-data/outputs/a.md", "content": "my password is hunter2"}
    await call_tool([ROW], run, request(tool("write_file", sandbox=True), run, **args), effect)
    assert seen == [1]
    [entry] = await events(run, "audit")
    assert "hunter2" not in json.dumps(entry)
    assert len(entry.pop("sha256")) == 64
    assert entry == {
        "user_id": "ann",
        "agent": "lead",
        "tool_call_id": "c-write_file",
        "tool": "write_file",
        "target": "/mnt/user-data/outputs/a.md",
        "verdict": "allowed",
    }


@pytest.mark.parametrize(
    ("command", "target"),
    [
        ("ls -l /etc", "ls"),
        ("  python3 x.py; rm y", "python3"),
        ("true", "true"),
        ("TOKEN=abc curl x", ""),
        ("$(cat secret)", ""),
        ("sk-live-1234567890@x", ""),
        ("", ""),
    ],
)
async def test_of_a_command_only_the_program_is_told(command: str, target: str) -> None:
    run = run_context()

    async def effect(command: str) -> str:
        return "done"

    await call_tool([ROW], run, request(BASH, run, command=command), effect)
    assert (await events(run, "audit"))[0]["target"] == target


async def test_several_paths_are_told() -> None:
    run = run_context()

    async def effect(**_: object) -> str:
        return "done"

    call = request(tool("present_files", sandbox=True), run, paths=["/mnt/a", "/mnt/b\nc"])
    await call_tool([ROW], run, call, effect)
    assert (await events(run, "audit"))[0]["target"] == "/mnt/a, /mnt/b?c"


async def test_the_same_arguments_give_the_same_digest() -> None:
    run = run_context()

    async def effect(**_: object) -> str:
        return "done"

    for args in ({"a": 1, "b": "x"}, {"b": "x", "a": 1}, {"a": 2}, {"a": 2**70}, {"a": "\ud800"}):
        await call_tool([ROW], run, request(BASH, run, **args), effect)
    digests = [entry["sha256"] for entry in await events(run, "audit")]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 4


async def test_tools_that_need_no_sandbox_are_not_audited() -> None:
    run = run_context()

    async def effect() -> str:
        return "done"

    await call_tool([ROW], run, request(tool("calculator"), run), effect)
    assert await events(run, "audit") == []
