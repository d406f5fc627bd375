"""P07: the database grows with the content, and forgets what is deleted."""

import random
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, message_to_dict
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import _messages_delta_reducer

from deerflow.storage.sql.driver import connect
from deerflow.storage.sql.schema import prepare
from deerflow.storage.sql.storage import SqliteStorage

CHANCE = random.Random(7)
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 "


class State(TypedDict):
    """Messages as in the product."""

    messages: Annotated[
        list[AnyMessage], DeltaChannel(_messages_delta_reducer, snapshot_frequency=50)
    ]


def text(size: int) -> str:
    """Text that hardly compresses."""
    return "".join(CHANCE.choices(LETTERS, k=size))


def graph_of_three_steps(storage: SqliteStorage, key: str) -> Any:
    """Each step adds a message and its event; 2 kB in all with the question."""

    def node(name: str) -> Any:
        async def step(state: State) -> dict[str, Any]:
            message = AIMessage(text(500), id=f"{name}-{len(state['messages'])}")
            storage.events.append(key, "r1", "message", {"message": message_to_dict(message)})
            return {"messages": [message]}

        return step

    graph = StateGraph(State)
    names = ["one", "two", "three"]
    for name in names:
        graph.add_node(name, node(name))
    for before, after in zip([START, *names], [*names, END], strict=True):
        graph.add_edge(before, after)
    return graph.compile(checkpointer=storage.saver)


def left_over(path: Path) -> dict[str, int]:
    """Rows per table that are not empty."""
    connection = connect(path)
    names = [
        row[0]
        for row in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        ).fetchall()
    ]
    counts = {n: connection.execute(f"SELECT count(*) FROM {n}").fetchone()[0] for n in names}
    connection.close()
    return {name: count for name, count in counts.items() if count}


async def test_p07_the_database_grows_with_the_content(tmp_path: Path) -> None:
    path, turns, image_size = tmp_path / "test.db", 200, 1_000_000
    prepare(path)
    empty = path.stat().st_size
    storage = SqliteStorage(path)
    thread = await storage.threads.ensure("ann", "t1")
    key = thread.thread_key
    graph = graph_of_three_steps(storage, key)
    config: Any = {"configurable": {"thread_id": key}}
    for turn in range(turns):
        question = HumanMessage(text(500), id=f"q{turn}")
        storage.events.append(key, "r1", "message", {"message": message_to_dict(question)})
        await graph.ainvoke({"messages": [question]}, config, durability="sync")
    await storage.close()
    of_text = path.stat().st_size - empty

    storage = SqliteStorage(path)
    images = [CHANCE.randbytes(image_size) for _ in range(10)]
    for image in images:
        for _ in range(3):  # seen at every step
            await storage.blobs.put("ann", key, image, "image/png")
    await storage.close()
    whole = path.stat().st_size - empty

    assert of_text <= 5_000_000
    assert whole <= 3 * (turns * 2000 + 10 * image_size)

    storage = SqliteStorage(path)
    graph = graph_of_three_steps(storage, key)
    messages = (await graph.aget_state(config)).values["messages"]
    assert len(messages) == 4 * turns
    await storage.threads.delete("ann", "t1")
    await storage.close()

    assert left_over(path) == {"thread_keys": 1, "alembic_version": 1}
    assert path.stat().st_size <= 2 * empty, "the space was not given back"
    assert images[0][:64] not in path.read_bytes()
