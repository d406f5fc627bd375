"""Parts that this server does not have say so plainly."""

from __future__ import annotations

from pathlib import Path

from fakes.gateway import gateway


async def test_lists_are_empty_and_acts_are_refused(tmp_path: Path) -> None:
    async with gateway(tmp_path, auth=True) as served:
        anna = await served.user("anna@example.org")
        root = await served.user("root@example.org", role="admin")
        nobody = await served.anonymous()
        await anna.post("/api/threads", json={"thread_id": "t"})
        providers = (await anna.get("/api/channels/providers")).json()
        connections = (await anna.get("/api/channels/connections")).json()
        lark = (await anna.get("/api/integrations/lark/status")).json()
        tasks = (await anna.get("/api/threads/t/mcp-tasks")).json()
        secret = {"token": "x"}
        config = "/api/channels/slack/runtime-config"
        refused = [
            (await anna.post("/api/channels/slack/connect")).status_code,
            (await anna.post(config, json=secret)).status_code,
            (await root.post(config, json=secret)).status_code,
            (await anna.post("/api/integrations/lark/install")).status_code,
            (await root.post("/api/integrations/lark/install")).status_code,
            (await nobody.post("/api/webhooks/github", json={})).status_code,
        ]
        browser = {"url": "https://example.org"}
        steered = await anna.post("/api/threads/t/browser/navigate", json=browser)
    assert providers == {"enabled": False, "providers": []}
    assert connections == {"connections": []}
    assert lark["installed"] is False
    assert tasks == {"tasks": []}
    assert refused == [404, 403, 404, 403, 409, 404]
    assert steered.status_code == 409
