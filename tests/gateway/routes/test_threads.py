from __future__ import annotations

from pathlib import Path
from typing import Any

from fakes.gateway import gateway

HELLO = {"messages": [{"role": "user", "content": "Hello"}]}
SCRIPT: list[Any] = [{"text": "Good day to you.", "when": "Hello", "times": 50}]


async def test_life_of_a_thread(tmp_path: Path) -> None:
    async with gateway(tmp_path, SCRIPT) as served:
        client = served.client
        made = await client.post("/api/threads", json={"thread_id": "t", "metadata": {"a": 1}})
        again = await client.post("/api/threads", json={"thread_id": "t", "metadata": {"b": 2}})
        refused = await client.post("/api/threads", json={"thread_id": "t", "if_exists": "raise"})
        empty = await client.post("/api/threads/t/history", json={"limit": 1})
        await client.post("/api/threads/t/runs/wait", json={"input": HELLO})
        patched = await client.patch("/api/threads/t", json={"metadata": {"a": None, "c": 3}})
        whole = (await client.get("/api/threads/t")).json()
        gone = [(await client.delete("/api/threads/t")).status_code for _ in range(2)]
        after = await client.get("/api/threads/t")
    assert made.json()["values"] == {}
    assert made.json()["status"] == "idle"
    assert again.json()["metadata"] == {"a": 1, "b": 2}
    assert refused.status_code == 409
    assert empty.json() == []
    assert patched.json()["metadata"] == {"b": 2, "c": 3}
    assert [m["type"] for m in whole["values"]["messages"]] == ["human", "ai"]
    assert gone == [204, 404]
    assert after.status_code == 404


async def test_history_and_states(tmp_path: Path) -> None:
    async with gateway(tmp_path, SCRIPT) as served:
        client = served.client
        for _ in range(2):
            await client.post("/api/threads/t/runs/wait", json={"input": HELLO})
        one = (await client.post("/api/threads/t/history", json={"limit": 1})).json()
        many = (await client.post("/api/threads/t/history", json={"limit": 50})).json()
        ident = many[-1]["checkpoint_id"]
        first = (await client.get(f"/api/threads/t/state/{ident}")).json()
        reference = {"checkpoint": many[-1]["checkpoint"]}
        same = (await client.post("/api/threads/t/state/checkpoint", json=reference)).json()
        before = {"before": many[2]["checkpoint"], "limit": 50}
        older = (await client.post("/api/threads/t/history", json=before)).json()
        child = {"checkpoint": {"checkpoint_ns": "tools:1"}}
        none = (await client.post("/api/threads/t/history", json=child)).json()
        renamed = await client.post("/api/threads/t/state", json={"values": {"title": "Named"}})
        state = (await client.get("/api/threads/t/state")).json()
        listed = (await client.post("/api/threads/search", json={})).json()
    assert len(one) == 1
    assert "checkpoint" not in one[0]
    assert len(one[0]["values"]["messages"]) == 4
    assert one[0]["next"] == []
    assert many[0]["checkpoint"]["checkpoint_id"] == many[0]["checkpoint_id"]
    assert first == same
    assert [entry["checkpoint_id"] for entry in older] == [e["checkpoint_id"] for e in many[3:]]
    assert none == []
    assert renamed.status_code == 200
    assert state["values"]["title"] == listed[0]["values"]["title"] == "Named"


async def test_search_pages_filters_and_puts_pinned_threads_first(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served:
        client = served.client
        for number in range(7):
            metadata = {"n": number, "deerflow_pinned": number == 2, "even": number % 2 == 0}
            await client.post("/api/threads", json={"thread_id": str(number), "metadata": metadata})
        body = {"limit": 4, "sort_by": "created_at", "select": ["thread_id", "metadata"]}
        pages = [
            (await client.post("/api/threads/search", json={**body, "offset": at})).json()
            for at in (0, 4)
        ]
        even = await client.post("/api/threads/count", json={"metadata": {"even": True}})
        named = (await client.post("/api/threads/search", json={"ids": ["1", "x"]})).json()
        values = await client.post("/api/threads/search", json={"values": {"title": "x"}})
        pruned = await client.post("/api/threads/prune", json={"thread_ids": ["0", "1", "x"]})
    assert [row["thread_id"] for page in pages for row in page] == [
        "2",
        "6",
        "5",
        "4",
        "3",
        "1",
        "0",
    ]
    assert set(pages[0][0]) == {"thread_id", "metadata"}
    assert even.json() == 4
    assert [row["thread_id"] for row in named] == ["1"]
    assert values.status_code == 422
    assert pruned.json() == {"pruned_count": 2}


async def test_p08_the_list_of_5000_threads_is_read_in_pages(tmp_path: Path) -> None:
    async with gateway(tmp_path, database={"backend": "sqlite"}) as served:
        threads = served.harness.storage.threads
        for number in range(120):
            await threads.ensure("local", f"t{number}")
        seen = list[str]()
        while True:
            body = {"limit": 50, "offset": len(seen), "select": ["thread_id"]}
            page = (await served.client.post("/api/threads/search", json=body)).json()
            seen += [row["thread_id"] for row in page]
            if len(page) < 50:
                break
    assert len(set(seen)) == 120


async def test_supersteps_bring_a_conversation_along(tmp_path: Path) -> None:
    words = [{"type": "human", "content": "Old"}, {"type": "ai", "content": "Answer"}]
    body = {"supersteps": [{"updates": [{"values": {"messages": words}, "as_node": "model"}]}]}
    async with gateway(tmp_path, SCRIPT) as served:
        made = (await served.client.post("/api/threads", json=body)).json()
        path = f"/api/threads/{made['thread_id']}/copy"
        copied = (await served.client.post(path)).json()
    assert [message["content"] for message in made["values"]["messages"]] == ["Old", "Answer"]
    assert copied["values"]["messages"] == made["values"]["messages"]
