"""MCP servers over HTTP: secrets are masked, and nothing new runs on this host."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from deerflow.config.load import LoadedConfig, load_config
from fakes.gateway import gateway, write_config

SERVERS: dict[str, Any] = {
    "files": {"command": "npx", "args": ["files"], "env": {"TOKEN": "hidden"}},
    "web": {
        "type": "http",
        "url": "https://mcp.example.org",
        "headers": {"Authorization": "$MCP_TOKEN", "X-Team": "red"},
        "oauth": {"token_url": "https://id.example.org", "client_secret": "hidden"},
    },
}


def configured(home: Path, extensions: Any = None) -> LoadedConfig:
    path = write_config(home, [], database={"backend": "memory"})
    if extensions is not None:
        (home / "extensions_config.json").write_text(json.dumps(extensions))
    environ = {"DEER_FLOW_HOME": str(home), "MCP_TOKEN": "hidden"}
    return load_config(path, environ=environ, cwd=home)


def kept(home: Path) -> Any:
    return json.loads((home / "extensions_config.json").read_text())


async def test_people_see_what_servers_are_for_and_admins_no_secret(tmp_path: Path) -> None:
    config = configured(tmp_path, {"mcpServers": SERVERS})
    async with gateway(tmp_path, config=config, auth=True) as served:
        anna = await served.user("anna@example.org")
        root = await served.user("root@example.org", role="admin")
        seen = (await anna.get("/api/mcp/config")).json()["mcp_servers"]
        whole = await root.get("/api/mcp/config")
        refused = [
            await anna.patch("/api/mcp/config", json={"server_name": "web", "enabled": False}),
            await anna.put("/api/mcp/config", json={"mcp_servers": {}}),
            await anna.post("/api/mcp/cache/reset"),
        ]
    assert seen["web"] == {"enabled": True, "type": "http", "description": ""}
    assert whole.json()["mcp_servers"]["files"]["args"] == ["files"]
    assert "hidden" not in whole.text
    assert {answer.status_code for answer in refused} == {403}
    assert kept(tmp_path) == {"mcpServers": SERVERS}


async def test_a_server_is_switched_off_for_good(tmp_path: Path) -> None:
    config = configured(tmp_path, {"mcpServers": SERVERS, "skills": {"a": {"enabled": False}}})
    async with gateway(tmp_path, config=config) as served:
        body = {"server_name": "web", "enabled": False}
        found = (await served.client.patch("/api/mcp/config", json=body)).json()
        unknown = await served.client.patch(
            "/api/mcp/config", json={"server_name": "other", "enabled": True}
        )
        servers = served.harness.loaded.extensions.mcp_servers
        audit = await served.harness.storage.accounts.audit()
    assert found["mcp_servers"]["web"]["enabled"] is False
    assert servers["web"].enabled is False
    assert unknown.status_code == 404
    raw = kept(tmp_path)
    assert raw["mcpServers"]["web"] == {**SERVERS["web"], "enabled": False}
    assert raw["skills"] == {"a": {"enabled": False}}
    assert [(row.action, row.target) for row in audit] == [("mcp_config", "web")]


async def test_what_was_shown_can_be_sent_back_and_changes_nothing(tmp_path: Path) -> None:
    config = configured(tmp_path, {"mcpServers": SERVERS})
    async with gateway(tmp_path, config=config) as served:
        shown = (await served.client.get("/api/mcp/config")).json()
        back = await served.client.put("/api/mcp/config", json=shown)
    assert back.json() == shown
    assert kept(tmp_path) == {"mcpServers": SERVERS}


@pytest.mark.parametrize(
    ("name", "change", "status"),
    [
        ("new", {"command": "sh", "args": ["-c", "id"]}, 403),
        ("new", {"type": "http", "command": "sh", "url": "https://a.example"}, 200),
        ("files", {"command": "sh"}, 403),
        ("files", {"env": {"LD_PRELOAD": "/x.so"}}, 403),
        ("files", {"type": "http", "url": "https://a.example"}, 403),
        ("files", {"description": "Files."}, 200),
        ("web", {"type": "stdio", "command": "sh"}, 403),
        ("web", {"url": "https://evil.example"}, 422),
        ("web", {"headers": {"Authorization": "***", "X-Team": "blue"}}, 200),
        ("web", {"headers": {"Leak": "$HOME"}}, 422),
        ("web", {"nonsense": 1}, 422),
    ],
)
async def test_what_an_admin_may_change(
    tmp_path: Path, name: str, change: dict[str, Any], status: int
) -> None:
    config = configured(tmp_path, {"mcpServers": SERVERS})
    async with gateway(tmp_path, config=config) as served:
        shown = (await served.client.get("/api/mcp/config")).json()["mcp_servers"]
        shown[name] = {**shown.get(name, {}), **change}
        answer = await served.client.put("/api/mcp/config", json={"mcp_servers": shown})
    assert answer.status_code == status, answer.text
    servers = kept(tmp_path)["mcpServers"]
    if status != 200:
        assert servers == SERVERS
    assert servers["web"]["headers"]["Authorization"] == "$MCP_TOKEN"
    assert servers["files"]["command"] == "npx"


async def test_a_file_that_is_broken_is_left_alone(tmp_path: Path) -> None:
    config = configured(tmp_path, {"mcpServers": SERVERS})
    file = tmp_path / "extensions_config.json"
    async with gateway(tmp_path, config=config) as served:
        file.write_text("{broken")
        answer = await served.client.put("/api/mcp/config", json={"mcp_servers": {}})
    assert answer.status_code == 422
    assert file.read_text() == "{broken"


async def test_a_change_that_cannot_be_read_again_is_taken_back(tmp_path: Path) -> None:
    config = configured(tmp_path, {"mcpServers": SERVERS})
    async with gateway(tmp_path, config=config) as served:
        (tmp_path / "config.yaml").write_text("models: 5")
        body = {"server_name": "web", "enabled": False}
        answer = await served.client.patch("/api/mcp/config", json=body)
    assert answer.status_code == 422
    assert kept(tmp_path) == {"mcpServers": SERVERS}


async def test_a_new_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    web = {"web": {"type": "http", "url": "https://mcp.example.org"}}
    async with gateway(tmp_path, config=configured(tmp_path)) as served:
        answer = await served.client.put("/api/mcp/config", json={"mcp_servers": web})
    assert answer.status_code == 200
    file = tmp_path / "extensions_config.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert kept(tmp_path) == {"mcpServers": web}
