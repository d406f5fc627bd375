"""The Python SDK against a real `deerflow serve` process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError, NotFoundError

from fakes.gateway import serve
from fakes.sdk import SCRIPT

HELLO = {"messages": [{"role": "user", "content": "Hello"}]}
SLOWLY = {"messages": [{"role": "user", "content": "slowly"}]}
ANSWER = "Good day to you."
FOUR: Any = ["messages-tuple", "values", "updates", "custom"]


async def collect(stream: AsyncIterator[Any]) -> list[Any]:
    return [part async for part in stream]


def text_of(parts: list[Any]) -> str:
    chunks = [part.data[0] for part in parts if part.event == "messages"]
    return "".join(chunk["content"] for chunk in chunks if chunk["type"] == "AIMessageChunk")


async def test_journeys(tmp_path: Path) -> None:
    async with serve(tmp_path, SCRIPT, scheduler={"enabled": True}) as served:
        client = get_client(url=f"{served.url}/api", api_key=None)
        async with client:
            thread = await client.threads.create(metadata={"colour": "green"})
            ident = thread["thread_id"]
            await _runs(client, ident)
            await _states(client, ident)
            await _cancel(client, ident)
            await _stateless(client)
            await _crons(client, ident)
            await _store(client)
            await _assistants(client, ident)
            await _newer_streams(client, ident)
            await _threads(client, ident)


async def _runs(client: LangGraphClient, thread_id: str) -> None:
    created: list[Any] = []
    parts = await collect(
        client.runs.stream(
            thread_id,
            "lead_agent",
            input=HELLO,
            stream_mode=FOUR,
            stream_resumable=True,
            on_run_created=created.append,
        )
    )
    assert text_of(parts) == ANSWER
    assert [parts[0].event, parts[-1].event] == ["metadata", "end"]
    run_id = created[0]["run_id"]
    again = await collect(client.runs.join_stream(thread_id, run_id, last_event_id="-1"))
    assert text_of(again) == ANSWER
    half = parts[len(parts) // 2]
    rest = await collect(
        client.runs.join_stream(thread_id, run_id, last_event_id=half.id, stream_mode=FOUR)
    )
    assert rest[-1] == parts[-1]
    assert (await client.runs.get(thread_id, run_id))["status"] == "success"
    assert [run["run_id"] for run in await client.runs.list(thread_id)] == [run_id]
    assert len((await client.runs.join(thread_id, run_id))["messages"]) == 2
    waited: Any = await client.runs.wait(thread_id, "lead_agent", input=HELLO)
    assert waited["messages"][-1]["content"] == ANSWER
    first = await client.runs.create(thread_id, "lead_agent", input=HELLO)
    second = await client.runs.create(
        thread_id, "lead_agent", input=HELLO, multitask_strategy="enqueue"
    )
    await client.runs.join(thread_id, second["run_id"])
    assert (await client.runs.get(thread_id, first["run_id"]))["status"] == "success"


async def _states(client: LangGraphClient, thread_id: str) -> None:
    state: Any = await client.threads.get_state(thread_id)
    assert len(state["values"]["messages"]) == 8
    history: Any = await client.threads.get_history(thread_id, limit=100)
    two = [entry for entry in history if len(entry["values"]["messages"]) == 2]
    early = next(entry for entry in two if entry["metadata"]["source"] == "loop")
    then: Any = await client.threads.get_state(thread_id, checkpoint=early["checkpoint"])
    assert len(then["values"]["messages"]) == 2
    await client.threads.update_state(thread_id, {"title": "Named"})
    state = await client.threads.get_state(thread_id)
    assert state["values"]["title"] == "Named"
    forked: Any = await client.runs.wait(
        thread_id, "lead_agent", input=HELLO, checkpoint=early["checkpoint"]
    )
    assert len(forked["messages"]) == 4


async def _cancel(client: LangGraphClient, thread_id: str) -> None:
    run = await client.runs.create(thread_id, "lead_agent", input=SLOWLY)
    parts: Any = client.runs.join_stream(thread_id, run["run_id"], stream_mode="messages-tuple")
    async with aclosing(parts):
        async for part in parts:
            if part.event == "messages":
                break
    with pytest.raises(ConflictError):
        await client.runs.create(thread_id, "lead_agent", input=HELLO)
    async with asyncio.timeout(5):
        await client.runs.cancel(thread_id, run["run_id"], wait=True)
    stopped: Any = await client.runs.get(thread_id, run["run_id"])
    assert (stopped["status"], stopped["stop_reason"]) == ("interrupted", "cancelled")
    with pytest.raises(ConflictError, match="not cancellable"):
        await client.runs.cancel(thread_id, run["run_id"])


async def _stateless(client: LangGraphClient) -> None:
    waited: Any = await client.runs.wait(None, "lead_agent", input=HELLO)
    assert waited["messages"][-1]["content"] == ANSWER
    batch = await client.runs.create_batch(
        [{"assistant_id": "lead_agent", "input": HELLO}] * 2  # type: ignore[list-item]
    )
    for run in batch:
        await client.runs.join(run["thread_id"], run["run_id"])


async def _crons(client: LangGraphClient, thread_id: str) -> None:
    made: Any = await client.crons.create_for_thread(
        thread_id, "lead_agent", schedule="0 9 * * 1", input=HELLO, timezone="Europe/Berlin"
    )
    found = await client.crons.search(thread_id=thread_id)
    assert [cron["cron_id"] for cron in found] == [made["cron_id"]]
    changed = await client.crons.update(made["cron_id"], schedule="30 7 * * *", enabled=False)
    assert (changed["schedule"], changed["enabled"]) == ("30 7 * * *", False)
    assert await client.crons.count() == 1
    await client.crons.delete(made["cron_id"])
    assert await client.crons.search() == []


async def _store(client: LangGraphClient) -> None:
    await client.store.put_item(["notes", "a"], "one", {"text": "first"})
    assert (await client.store.get_item(["notes", "a"], "one"))["value"] == {"text": "first"}
    assert len((await client.store.search_items(["notes"]))["items"]) == 1
    assert (await client.store.list_namespaces())["namespaces"] == [["notes", "a"]]
    await client.store.delete_item(["notes", "a"], "one")
    assert (await client.store.search_items(["notes"]))["items"] == []


async def _assistants(client: LangGraphClient, thread_id: str) -> None:
    found: Any = await client.assistants.search(graph_id="lead_agent")
    assert found[0]["assistant_id"] == "lead_agent"
    made = await client.assistants.create("lead_agent", name="Mine", context={"mode": "flash"})
    ident = made["assistant_id"]
    changed = await client.assistants.update(ident, name="Ours")
    assert (changed["version"], changed["name"]) == (2, "Ours")
    assert (await client.assistants.set_latest(ident, 1))["name"] == "Mine"
    assert [v["version"] for v in await client.assistants.get_versions(ident)] == [2, 1]
    waited: Any = await client.runs.wait(thread_id, ident, input=HELLO)
    assert waited["messages"][-1]["content"] == ANSWER
    await client.assistants.delete(ident)
    assert await client.assistants.count() == 1


async def _newer_streams(client: LangGraphClient, thread_id: str) -> None:
    for transport in ("sse", "websocket"):
        async with client.threads.stream(
            thread_id, assistant_id="lead_agent", transport=transport
        ) as thread:
            await thread.run.start(input=HELLO)
            async with asyncio.timeout(20):
                messages = [message async for message in thread.messages]
                values: Any = await thread.output
            assert [await message.text for message in messages] == [ANSWER]
            assert values["messages"][-1]["content"] == ANSWER


async def _threads(client: LangGraphClient, thread_id: str) -> None:
    await client.threads.update(thread_id, metadata={"size": 3})
    found = await client.threads.search(metadata={"colour": "green", "size": 3})
    assert [thread["thread_id"] for thread in found] == [thread_id]
    assert await client.threads.count(metadata={"colour": "green"}) == 1
    copy: Any = await client.threads.copy(thread_id)
    assert copy["thread_id"] != thread_id
    await client.threads.delete(thread_id)
    with pytest.raises(NotFoundError):
        await client.threads.get(thread_id)
