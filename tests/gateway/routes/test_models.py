"""The models as people choose them: nothing of keys and addresses."""

from __future__ import annotations

from pathlib import Path

from fakes.gateway import gateway
from fakes.harness import SCRIPTED


async def test_models_are_told_in_order_without_secrets(tmp_path: Path) -> None:
    models = [
        {"name": "first", "use": SCRIPTED, "script": [], "display_name": "First"},
        {
            **{"name": "acme/second", "use": "openai", "model": "x-1", "api_key": "hidden"},
            **{"base_url": "http://inside.example/v1", "supports_thinking": True},
            **{"supports_vision": True, "description": "Sees."},
        },
    ]
    async with gateway(tmp_path, models=models, token_usage={"enabled": False}) as served:
        answer = await served.client.get("/api/models")
        one = (await served.client.get("/api/models/acme/second")).json()
        unknown = await served.client.get("/api/models/frist")
    found = answer.json()["models"]
    assert [each["name"] for each in found] == ["first", "acme/second"]
    assert [each["display_name"] for each in found] == ["First", "acme/second"]
    assert found[1] == one
    assert (one["model"], one["supports_thinking"], one["supports_vision"]) == ("x-1", True, True)
    assert one["description"] == "Sees."
    assert answer.json()["token_usage"] == {"enabled": False}
    assert "hidden" not in answer.text
    assert "inside.example" not in answer.text
    assert (unknown.status_code, "first" in unknown.json()["cure"]) == (404, True)
