from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from deerflow.config.load import load_config
from fakes.gateway import gateway, write_config

RELOAD = "/api/config/reload"


def _model(name: str, script: list[Any]) -> dict[str, Any]:
    return {"name": name, "use": "deerflow.models.scripted:ScriptedChatModel", "script": script}


async def test_p16_a_reload_takes_the_new_content_whatever_the_time_stamp_says(
    tmp_path: Path,
) -> None:
    memory = {"database": {"backend": "memory"}}
    file = write_config(tmp_path, ["old answer"], **memory)
    stamp = file.stat().st_mtime_ns
    loaded = load_config(file, environ={}, cwd=tmp_path)
    async with gateway(tmp_path, config=loaded) as served:
        same = (await served.client.post(RELOAD)).json()
        raw = json.loads(file.read_text(encoding="utf-8"))
        raw |= {"models": [_model("other", ["new answer"])], "max_turns": 7}
        file.write_text(json.dumps(raw), encoding="utf-8")
        os.utime(file, ns=(stamp, stamp))
        changed = (await served.client.post(RELOAD)).json()
        harness = served.harness
        assert (harness.catalog.default, harness.parts.catalog.default) == ("other", "other")
        assert harness.parts.config.max_turns == harness.loaded.config.max_turns == 7
        assert await harness.agents.graph("other") is not None
    assert same["changed"] is False
    assert changed["changed"] is True


async def test_p16_a_broken_file_keeps_the_last_good_state_and_says_so(tmp_path: Path) -> None:
    memory = {"database": {"backend": "memory"}}
    file = write_config(tmp_path, ["hello"], **memory)
    loaded = load_config(file, environ={}, cwd=tmp_path)
    good = file.read_text(encoding="utf-8")
    async with gateway(tmp_path, config=loaded) as served:
        answers = []
        for text in (
            "max_turns: many\nmodles: []\n",
            '{"models": [{"name": "m", "use": "nowhere:Model"}], "database": {"backend": "memory"},'
            ' "extensions": {"middlewares": ["nowhere:All"]}}',
        ):
            file.write_text(text, encoding="utf-8")
            answers.append(await served.client.post(RELOAD))
            assert served.harness.catalog.default == "scripted"
            assert served.harness.parts.config.max_turns == loaded.config.max_turns
        file.write_text(good, encoding="utf-8")
        healed = await served.client.post(RELOAD)
    assert [answer.status_code for answer in answers] == [422, 422]
    assert "max_turns" in answers[0].json()["problems"][0]
    assert ":1" in answers[0].json()["problems"][0]
    assert "nowhere" in answers[1].json()["problems"][0]
    assert answers[0].json()["code"] == "bad_config"
    assert (healed.status_code, healed.json()["changed"]) == (200, False)


async def test_only_an_admin_reads_the_configuration_again(tmp_path: Path) -> None:
    async with gateway(tmp_path, auth=True) as served:
        anna = await served.user("anna@example.org")
        root = await served.user("root@example.org", role="admin")
        assert (await anna.post(RELOAD)).status_code == 403
        assert (await root.post(RELOAD)).status_code == 200


async def test_what_lives_as_long_as_the_process_is_named(tmp_path: Path) -> None:
    memory = {"database": {"backend": "memory"}}
    file = write_config(tmp_path, ["hello"], **memory)
    loaded = load_config(file, environ={}, cwd=tmp_path)
    async with gateway(tmp_path, config=loaded) as served:
        write_config(tmp_path, ["hello"], memory={"enabled": False}, runtime={"workers": 3})
        answer = (await served.client.post(RELOAD)).json()
        config = served.harness.loaded.config
    assert (config.memory.enabled, config.runtime.workers) == (True, 1)
    notes = " ".join(answer["warnings"])
    assert "memory: changed, takes effect at the next start" in notes
    assert "runtime: changed" in notes
    assert "database: changed" in notes
