"""Standard mode: a LangGraph Server runs the graph; its stream is written into our log.

Whoever follows a run reads the same log as ever, and thread states are kept here as well, so
nothing but the place of execution changes. The server's run carries our run's id in its metadata:
a worker that takes over finds it there and goes on reading.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any, cast

from langchain_core.messages import AnyMessage, convert_to_messages
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import LangGraphError
from langgraph_sdk.schema import StreamPart

from deerflow.agent.context import RunContext
from deerflow.agent.record import shown
from deerflow.errors import DeerFlowError
from deerflow.runtime.driving import Driver, End
from deerflow.runtime.outcome import answer_of, last_turn
from deerflow.runtime.parts import Job, RunParts
from deerflow.storage.protocol import Delta

ASSISTANT = "lead_agent"
"""Name of the graph in the shipped langgraph.json."""
MARK = "deerflow_run"
"""Key of our run's id in the metadata of the server's run."""
MODES: Any = ["values", "messages-tuple"]
CHANNELS = ("artifacts", "todos", "title")
"""Channels whose changes are events of ours; each event has the channel's name and field."""


class StandardDriver(Driver):
    """Has runs driven by a LangGraph Server.

    Args:
        parts: what runs are driven with; its graph keeps the states.
        url: address of the server.
    """

    def __init__(self, parts: RunParts, url: str) -> None:
        super().__init__(parts)
        self._url = url

    async def _drive(self, job: Job) -> End:
        async with get_client(url=self._url) as client:
            try:
                return await self._served(job, client)
            except (LangGraphError, OSError) as error:
                raise DeerFlowError(
                    f"The LangGraph Server failed: {type(error).__name__}.",
                    cure=f"See that it answers at runtime.langgraph_url ({self._url}).",
                ) from error

    async def _served(self, job: Job, client: LangGraphClient) -> End:
        context = job.context
        thread = str(uuid.UUID(hex=context.thread_key))
        await client.threads.create(thread_id=thread, if_exists="do_nothing")
        if job.input is not None:
            for message in job.input["messages"]:
                if message.id not in context.logged:
                    context.emit("message", {"message": shown(message)})
        mirror = _Mirror(context)
        run = await _known(client, thread, context.run_id)
        stream = self._joined(client, thread, run) if run else self._begun(client, thread, job)
        try:
            await mirror.follow(stream)
        except asyncio.CancelledError:
            run = await _known(client, thread, context.run_id)
            if run is not None and not job.left:
                await client.runs.cancel(thread, run, wait=False)
            raise
        return await self._mirrored(job, mirror)

    def _begun(self, client: LangGraphClient, thread: str, job: Job) -> AsyncIterator[StreamPart]:
        context = job.context
        messages: list[AnyMessage] = [] if job.input is None else job.input["messages"]
        asked = {
            "model_name": context.model_name,
            "is_plan_mode": context.plan,
            "max_turns": context.max_turns,
            "user_id": context.user_id,
            "thread_key": context.thread_key,
        }
        return client.runs.stream(
            thread,
            ASSISTANT,
            input={"messages": [message.model_dump() for message in messages]},
            config={"configurable": asked, "recursion_limit": 10_000},
            metadata={MARK: context.run_id},
            stream_mode=MODES,
            stream_resumable=True,
            on_disconnect="continue",
            multitask_strategy="enqueue",
        )

    @staticmethod
    def _joined(client: LangGraphClient, thread: str, run: str) -> AsyncIterator[StreamPart]:
        return client.runs.join_stream(thread, run, stream_mode=MODES, last_event_id="-1")

    async def _mirrored(self, job: Job, mirror: _Mirror) -> End:
        """Keep the state here as well, and read the end off it."""
        context, values = job.context, mirror.values
        graph = await self._parts.agent(context)
        kept = {name: values[name] for name in CHANNELS if values.get(name)}
        update = {"messages": mirror.messages, **kept}
        await graph.aupdate_state(
            {"configurable": {"thread_id": context.thread_key}}, update, as_node="model"
        )
        messages = last_turn(mirror.messages, context.input_id)
        outcome = await self._outcome(context, messages, interrupted=False)
        presented = tuple(values.get("artifacts") or ())
        return End("success", outcome, answer_of(messages), presented, tuple(mirror.messages))


class _Mirror:
    """Writes a server's stream into our log: pieces of text, messages, changed channels."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._written: dict[str, int] = {}
        self.values: dict[str, Any] = {}
        self.messages: list[AnyMessage] = []

    async def follow(self, stream: AsyncIterator[StreamPart]) -> None:
        """Read to the end.

        Raises:
            DeerFlowError: the server's run failed.
        """
        async for part in stream:
            data = cast("Any", part).data
            if part.event == "messages":
                await self._piece(data[0])
            elif part.event == "values":
                self._state(data)
            elif part.event == "error":
                raise DeerFlowError(f"The run failed: {_told(data)}.")

    async def _piece(self, chunk: dict[str, Any]) -> None:
        """Text that is being written; it is committed before anybody sees it."""
        text, name = chunk.get("content"), str(chunk.get("id"))
        if chunk.get("type") != "AIMessageChunk" or not isinstance(text, str) or not text:
            return
        if name in self._context.logged:
            return
        context, offset = self._context, self._written.get(name, 0)
        self._written[name] = offset + len(text)
        await context.storage.deltas.append(
            context.thread_key, Delta(context.run_id, name, offset, text)
        )

    def _state(self, values: dict[str, Any]) -> None:
        context = self._context
        self.messages = cast("list[AnyMessage]", convert_to_messages(values.get("messages") or []))
        for message in self.messages:
            name = str(message.id)
            if name in context.logged or name == context.input_id:
                continue
            context.logged[name] = shown(message)
            context.emit("message", {"message": context.logged[name]})
            if self._written.pop(name, None) is not None:
                context.storage.deltas.finish(context.run_id, name)
        for channel in CHANNELS:
            new = values.get(channel)
            if new and new != self.values.get(channel):
                context.emit(channel, {channel: new})
        self.values = values


def _told(data: Any) -> str:
    """What the server says of a failure: an object with a message, or text."""
    if not isinstance(data, dict):
        return str(data)
    told = cast("dict[str, Any]", data)
    return str(told.get("message") or told.get("error"))


async def _known(client: LangGraphClient, thread: str, run_id: str) -> str | None:
    """The server's run for one of ours, None when it has none."""
    for run in await client.runs.list(thread, limit=100):
        if (run.get("metadata") or {}).get(MARK) == run_id:
            return str(run["run_id"])
    return None
