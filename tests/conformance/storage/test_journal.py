"""Journal: what is known of an effect after a kill."""

from dataclasses import replace

import pytest

from deerflow.errors import ThreadGoneError
from deerflow.storage.protocol import CallKey, ModelKey, Storage, ToolRecord


def call(key: str, run: str = "r1") -> CallKey:
    """Call 0 of message m1 of the lead."""
    return CallKey(key, run, "", "m1", 0)


async def test_unknown_started_and_finished(storage: Storage, key: str) -> None:
    at = call(key)
    assert await storage.journal.tool_lookup(at) is None

    await storage.journal.tool_started(at, "bash")
    assert await storage.journal.tool_lookup(at) == ToolRecord("bash", started=True, result=None)

    await storage.journal.tool_finished(at, "bash", '"done"')
    assert await storage.journal.tool_lookup(at) == ToolRecord(
        "bash", started=True, result='"done"'
    )


async def test_an_idempotent_tool_has_no_start(storage: Storage, key: str) -> None:
    storage.journal.tool_finished(call(key), "ls", '"a b"')

    assert await storage.journal.tool_lookup(call(key)) == ToolRecord(
        "ls", started=False, result='"a b"'
    )


@pytest.mark.parametrize("result", ["", "x", "x" * 5000, "\U0001f98c" * 300, '{"a": 1}'])
async def test_results_come_back_as_they_were(storage: Storage, key: str, result: str) -> None:
    storage.journal.tool_finished(call(key), "ls", result)
    record = await storage.journal.tool_lookup(call(key))

    assert record is not None
    assert record.result == result


async def test_each_part_of_the_key_tells_calls_apart(storage: Storage, key: str) -> None:
    at = call(key)
    await storage.journal.tool_started(at, "bash")

    for other in (
        replace(at, thread_key="another"),
        replace(at, run_id="r2"),
        replace(at, namespace="child"),
        replace(at, message_id="m2"),
        replace(at, index=1),
    ):
        assert await storage.journal.tool_lookup(other) is None


async def test_model_replies(storage: Storage, key: str) -> None:
    at = ModelKey(key, "r1", "", 1, "a" * 64)
    storage.journal.model_finished(at, '{"content": "hi"}')

    assert await storage.journal.model_lookup(at) == '{"content": "hi"}'
    assert await storage.journal.model_lookup(replace(at, turn=2)) is None
    assert await storage.journal.model_lookup(replace(at, request_sha256="b" * 64)) is None


@pytest.mark.parametrize(
    ("status", "kept"), [("success", False), ("interrupted", True), ("error", True)]
)
async def test_the_journal_outlives_every_run_but_a_good_one(
    storage: Storage, key: str, status: str, kept: bool
) -> None:
    await storage.threads.start_run(key, "r1", input={}, config={})
    storage.journal.tool_finished(call(key), "ls", "1")
    storage.journal.model_finished(ModelKey(key, "r1", "", 1, "a"), "2")
    storage.journal.tool_finished(call(key, "other"), "ls", "3")
    await storage.threads.end_run("r1", status=status, outcome=None)

    assert (await storage.journal.tool_lookup(call(key)) is not None) is kept
    assert (await storage.journal.model_lookup(ModelKey(key, "r1", "", 1, "a")) is not None) is kept
    assert await storage.journal.tool_lookup(call(key, "other")) is not None


async def test_late_effects_of_a_deleted_thread_are_refused(storage: Storage, key: str) -> None:
    await storage.threads.delete("ann", "t1")

    with pytest.raises(ThreadGoneError):
        await storage.journal.tool_started(call(key), "bash")
    with pytest.raises(ThreadGoneError):
        await storage.journal.tool_finished(call(key), "bash", "1")
