"""Assistants, crons and the store: what clients keep on the server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fakes.gateway import gateway

HELLO = {"messages": [{"role": "user", "content": "Hello"}]}


async def test_assistants(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served:
        client = served.client
        built_in = (await client.get("/api/assistants/lead_agent")).json()
        body = {"graph_id": "lead_agent", "assistant_id": "mine", "metadata": {"a": 1}}
        made = (await client.post("/api/assistants", json=body)).json()
        twice = await client.post("/api/assistants", json=body)
        kept = await client.post("/api/assistants", json={**body, "if_exists": "do_nothing"})
        found = (await client.post("/api/assistants/search", json={"metadata": {"a": 1}})).json()
        graph = (await client.get("/api/assistants/mine/graph")).json()
        schemas = (await client.get("/api/assistants/mine/schemas")).json()
        children = (await client.get("/api/assistants/mine/subgraphs")).json()
        wrong = await client.post("/api/assistants", json={"graph_id": "nobody"})
        gone = await client.delete("/api/assistants/mine")
        after = await client.get("/api/assistants/mine")
        fixed = await client.delete("/api/assistants/lead_agent")
    assert built_in["graph_id"] == "lead_agent"
    assert made["version"] == 1
    assert (twice.status_code, kept.json()) == (409, made)
    assert [row["assistant_id"] for row in found] == ["mine"]
    assert {node["id"] for node in graph["nodes"]} >= {"model", "tools"}
    assert "messages" in schemas["input_schema"]["properties"]
    assert children == {}
    assert (wrong.status_code, gone.status_code, after.status_code) == (404, 204, 404)
    assert fixed.status_code == 404


async def test_crons(tmp_path: Path) -> None:
    body = {"schedule": "0 9 * * 1", "input": HELLO, "timezone": "Europe/Berlin"}
    async with gateway(tmp_path, scheduler={"enabled": True}) as served:
        client = served.client
        await client.post("/api/threads", json={"thread_id": "t"})
        made = (await client.post("/api/threads/t/runs/crons", json=body)).json()
        loose = (await client.post("/api/runs/crons", json={**body, "enabled": False})).json()
        bad = await client.post("/api/runs/crons", json={**body, "schedule": "every day"})
        path = f"/api/runs/crons/{made['cron_id']}"
        changed = (await client.patch(path, json={"metadata": {"a": 1}})).json()
        found = (await client.post("/api/runs/crons/search", json={"enabled": True})).json()
        count = (await client.post("/api/runs/crons/count", json={})).json()
        gone = [(await client.delete(path)).status_code for _ in range(2)]
    assert made["thread_id"] == "t"
    assert made["next_run_date"] is not None
    assert made["payload"]["input"] == HELLO
    assert (loose["thread_id"], loose["enabled"]) == (None, False)
    assert bad.status_code == 422
    assert changed["metadata"] == {"a": 1}
    assert [cron["cron_id"] for cron in found] == [made["cron_id"]]
    assert count == 2
    assert gone == [204, 404]


async def test_the_store_keeps_users_apart(tmp_path: Path) -> None:
    item: dict[str, Any] = {"namespace": ["notes"], "key": "one", "value": {"n": 1}}
    name = {"namespace": "notes", "key": "one"}
    async with gateway(tmp_path, auth=True) as served:
        anna = await served.user("anna@example.org")
        ben = await served.user("ben@example.org")
        put = await anna.put("/api/store/items", json=item)
        hers = (await anna.get("/api/store/items", params=name)).json()
        his = await ben.get("/api/store/items", params=name)
        search = {"namespace_prefix": [], "filter": {"n": 1}}
        found = (await anna.post("/api/store/items/search", json=search)).json()
        none = (await ben.post("/api/store/items/search", json=search)).json()
        spaces = (await ben.post("/api/store/namespaces", json={})).json()
        bad = [
            await anna.put("/api/store/items", json={**item, "namespace": [label]})
            for label in ("a.b", "a\0b", "langgraph")
        ]
        bad.append(await anna.post("/api/store/namespaces", json={"prefix": ["a.b"]}))
        bad.append(await anna.post("/api/store/namespaces", json={"suffix": ["a.b"]}))
    assert put.status_code == 204
    assert hers["value"] == {"n": 1}
    assert his.status_code == 404
    assert len(found["items"]) == 1
    assert none == {"items": []}
    assert spaces == {"namespaces": []}
    assert {answer.status_code for answer in bad} == {422}
