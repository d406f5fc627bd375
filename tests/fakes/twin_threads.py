"""A thread lived through twice: on the saver under test, and on LangGraph's with whole values."""

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import _messages_delta_reducer, add_messages
from langgraph.types import Command, Overwrite, Send, interrupt

from deerflow.storage.postgres.database import Place
from deerflow.storage.postgres.storage import PostgresStorage
from deerflow.storage.sql.schema import prepare
from deerflow.storage.sql.storage import SqliteStorage, SqlStorage

FREQUENCY = 3


def merge(old: dict[str, str] | None, new: dict[str, str] | None) -> dict[str, str]:
    """Later keys win."""
    return {**(old or {}), **(new or {})}


class Deltas(TypedDict):
    """Messages as a delta channel; `files` grows beyond what is stored inline."""

    messages: Annotated[
        list[AnyMessage], DeltaChannel(_messages_delta_reducer, snapshot_frequency=FREQUENCY)
    ]
    files: Annotated[dict[str, str], merge]
    script: str


class Whole(TypedDict):
    """The same state with every value stored in every checkpoint."""

    messages: Annotated[list[AnyMessage], add_messages]
    files: Annotated[dict[str, str], merge]
    script: str


def build(schema: Any, saver: Any) -> Any:
    """A graph whose path is chosen by the word in `script`."""

    async def think(state: Any) -> dict[str, Any]:
        count = len(state["messages"])
        return {
            "messages": [AIMessage(f"thought {count} {'x' * 300}", id=f"think-{count}")],
            "files": {f"/mnt/{count}": f"{count:064d}"},
        }

    def spread(state: Any) -> Any:
        script, count = state["script"], len(state["messages"])
        if script == "parallel":
            return [Send("work", {"n": n, "count": count}) for n in range(3)]
        return {"overwrite": "shrink", "ask": "ask", "remove": "remove"}.get(script, END)

    async def work(item: dict[str, int]) -> dict[str, Any]:
        text = f"work {item['n']} of {item['count']}"
        return {"messages": [AIMessage(text, id=text)]}

    async def shrink(state: Any) -> dict[str, Any]:
        kept = [
            HumanMessage("summary", id=f"sum-{len(state['messages'])}"),
            *state["messages"][-2:],
        ]
        return {"messages": Overwrite(kept)}

    async def remove(state: Any) -> dict[str, Any]:
        return {"messages": [RemoveMessage(id=state["messages"][0].id)]}

    async def ask(state: Any) -> dict[str, Any]:
        answer = interrupt({"question": len(state["messages"])})
        return {"messages": [HumanMessage(answer, id=f"answer-{len(state['messages'])}")]}

    graph = StateGraph(schema)
    for node in (think, work, shrink, remove, ask):
        graph.add_node(node.__name__, node)
        if node is not think:
            graph.add_edge(node.__name__, END)
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", spread)
    return graph.compile(checkpointer=saver)


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """State values in a form that compares."""
    shown = {k: v for k, v in values.items() if k != "messages"}
    shown["messages"] = [(m.type, m.id, m.content) for m in values.get("messages", [])]
    return shown


def opener(request: pytest.FixtureRequest) -> Callable[[], SqlStorage]:
    """Opens storages on the empty database that the fixture's parameter names."""
    if request.param == "postgres":
        place: Place = request.getfixturevalue("place")
        return lambda: PostgresStorage(place)
    path: Path = request.getfixturevalue("tmp_path") / "test.db"
    prepare(path)
    return lambda: SqliteStorage(path)


class Pair:
    """One thread lived through twice: on our saver, and on LangGraph's with whole values.

    Attributes:
        open: gives one more storage on the same database.
    """

    def __init__(self, open_storage: Callable[[], SqlStorage]) -> None:
        self.open = open_storage
        self.key = "thread"
        self.whole = build(Whole, InMemorySaver())
        self.storage = open_storage()
        self.ours = build(Deltas, self.storage.saver)

    async def reopen(self) -> None:
        """A new process."""
        await self.storage.close()
        self.storage = self.open()
        self.ours = build(Deltas, self.storage.saver)

    async def rows(self, sql: str) -> list[Any]:
        """What a query gives."""
        readers = self.storage._readers
        return await readers.read(lambda c: c.execute(sql).fetchall(), scope="")

    async def history(self, graph: Any) -> list[Any]:
        """Snapshots of a graph, newest first."""
        config = {"configurable": {"thread_id": self.key}}
        return [snapshot async for snapshot in graph.aget_state_history(config)]

    def config(self, snapshot: Any = None) -> dict[str, Any]:
        """Config at the head, or at a snapshot."""
        config: dict[str, Any] = {"configurable": {"thread_id": self.key}}
        if snapshot is not None:
            config["configurable"]["checkpoint_id"] = snapshot.config["configurable"][
                "checkpoint_id"
            ]
        return config

    async def say(self, script: str, at: int | None = None) -> None:
        """A new input, at the head or at the `at`-th newest checkpoint."""
        text = uuid.uuid4().hex
        for graph in (self.whole, self.ours):
            snapshot = None if at is None else (await self.history(graph))[at]
            given = {"messages": [HumanMessage(text, id=text)], "script": script}
            await graph.ainvoke(given, self.config(snapshot), durability="sync")

    async def answer(self) -> None:
        """Resume an interrupt."""
        for graph in (self.whole, self.ours):
            await graph.ainvoke(Command(resume="yes"), self.config(), durability="sync")

    async def edit(self) -> None:
        """Change the state from outside."""
        text = uuid.uuid4().hex
        for graph in (self.whole, self.ours):
            await graph.aupdate_state(
                self.config(), {"messages": [HumanMessage(text, id=text)]}, as_node="work"
            )

    async def waits(self) -> bool:
        """Whether the head waits for an answer."""
        return bool((await self.whole.aget_state(self.config())).interrupts)

    async def compare_heads(self) -> None:
        """The newest state is the same on both."""
        head = await self.ours.aget_state(self.config())
        assert plain(head.values) == plain((await self.whole.aget_state(self.config())).values)

    async def compare(self) -> None:
        """Head and history are the same on both."""
        await self.compare_heads()
        ours, whole = await self.history(self.ours), await self.history(self.whole)
        assert [plain(s.values) for s in ours] == [plain(s.values) for s in whole]
        assert [s.next for s in ours] == [s.next for s in whole]
