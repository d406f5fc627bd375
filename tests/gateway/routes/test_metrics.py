"""/metrics: figures for admins and for this machine."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import httpx

from deerflow.config.load import read_environ
from fakes.exposed import figures
from fakes.gateway import free_port, gateway, listening, until, write_config

PATH = "/metrics"


async def test_a_run_shows_in_the_figures(tmp_path: Path) -> None:
    call = {"name": "calculator", "args": {"expression": "6*7"}}
    script = [{"calls": [call]}, {"text": "42", "usage": {"input": 100, "output": 20}}]
    async with gateway(tmp_path, script) as served:
        body = {"input": {"messages": [{"role": "user", "content": "6*7?"}]}}
        await served.client.post("/api/runs/wait", json=body)

        async def counted() -> bool:
            found = figures((await served.client.get(PATH)).text)
            return found.get('deerflow_task_duration_seconds_count{phase="run"}') == 1

        await until(counted, seconds=10)
        answer = await served.client.get(PATH)
    found = figures(answer.text)
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert found['deerflow_node_executions_total{node="model"}'] == 2
    assert found['deerflow_node_executions_total{node="tools"}'] == 1
    assert found['deerflow_llm_token_usage_total{model_name="scripted"}'] == 120
    assert found['deerflow_queue_depth{status="pending"}'] == 0
    assert found["deerflow_lease_takeovers_total"] == 0
    assert found["deerflow_sse_clients"] == 0


async def test_clients_of_streams_are_counted_while_they_read(tmp_path: Path) -> None:
    async with gateway(tmp_path, ["hello"]) as served, listening(served.app) as url:
        await served.client.post("/api/threads", json={"thread_id": "t"})
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:

            async def clients() -> float:
                return figures((await client.get(PATH)).text)["deerflow_sse_clients"]

            async with client.stream("GET", "/api/threads/t/stream") as stream:
                assert stream.status_code == 200
                assert await clients() == 1

            async def gone() -> bool:
                return await clients() == 0

            await until(gone, seconds=10)


async def test_from_elsewhere_an_admin_must_call(tmp_path: Path) -> None:
    async with gateway(tmp_path, [], auth=True) as served:
        admin = await served.user("root@example.org", role="admin")
        made = await admin.post(
            "/api/v1/auth/tokens", json={"name": "prometheus", "scopes": ["account:read"]}
        )
        token = made.json()["token"]
        user = await served.user("ann@example.org")
        mine = (await user.post("/api/v1/auth/tokens", json={"name": "x"})).json()["token"]
        far = await served.anonymous(address="192.0.2.7")
        near = await served.anonymous()
        asked = {
            "nobody": await far.get(PATH),
            "admin": await far.get(PATH, headers={"Authorization": f"Bearer {token}"}),
            "user": await far.get(PATH, headers={"Authorization": f"Bearer {mine}"}),
            "loopback": await near.get(PATH),
            "proxied": await near.get(PATH, headers={"X-Forwarded-For": "192.0.2.7"}),
            "rebound": await near.get(PATH, headers={"Host": "evil.example"}),
        }
    assert {name: answer.status_code for name, answer in asked.items()} == {
        "nobody": 401, "admin": 200, "user": 403, "loopback": 200, "proxied": 401, "rebound": 401,
    }  # fmt: skip


async def test_switched_off_there_is_no_such_page(tmp_path: Path) -> None:
    async with gateway(tmp_path, [], telemetry={"metrics": False}) as served:
        assert (await served.client.get(PATH)).status_code == 404


async def test_a_worker_shows_its_figures_on_a_port_of_its_own(tmp_path: Path) -> None:
    file = write_config(tmp_path, ["hello"], database={"backend": "sqlite"})
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "deerflow", "worker", "--config", str(file)),
        *("--metrics-port", str(port)),
        env={**read_environ(), "DEER_FLOW_HOME": str(tmp_path)},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert b"waits for runs" in await process.stdout.readline()
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            found = figures((await client.get(PATH)).text)
            rebound = await client.get(PATH, headers={"Host": "evil.example"})
    finally:
        process.terminate()
        await process.wait()
    assert found['deerflow_queue_depth{status="pending"}'] == 0
    assert "deerflow_sse_clients" not in found
    assert rebound.status_code == 403
    assert process.returncode == 0
