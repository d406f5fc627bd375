"""Values under keys: readable facts, replaced ones kept, and three places to keep them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deerflow import Memory
from deerflow.config.schema import AppConfig
from deerflow.errors import UsageError


@pytest.fixture(autouse=True)
def around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEER_FLOW_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DEER_FLOW_CONFIG_PATH", raising=False)


@pytest.fixture(params=["deermem", "folder"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Memory:
    return Memory() if request.param == "deermem" else Memory(tmp_path / "kept")


@pytest.mark.parametrize(
    "value", ["text", "7", "null", 7, 1.5, True, None, [1, "a"], {"a": {"b": 1}}, "Grüße, 鹿", ""]
)
async def test_a_value_comes_back_as_it_was(memory: Memory, value: Any) -> None:
    await memory.store("key", value)
    assert await memory.load("key", "missing") == value
    assert await memory.items() == {"key": value}


async def test_the_last_value_counts_and_the_first_stays_in_the_history(memory: Memory) -> None:
    for value in ("one", "two", "two", "three"):
        await memory.store("key", value)
    await memory.store("other", 1)
    assert await memory.items() == {"key": "three", "other": 1}


async def test_a_missing_key_gives_the_default(memory: Memory) -> None:
    assert await memory.load("nothing") is None
    assert await memory.load("nothing", 7) == 7


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [("", 1, "1 to 2000"), ("k", "x" * 3000, "1 to 2000"), ("k", object(), "no JSON")],
)
async def test_what_cannot_be_kept_is_refused(
    memory: Memory, key: str, value: Any, told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        await memory.store(key, value)
    assert await memory.items() == {}


async def test_noop_forgets() -> None:
    memory = Memory("noop")
    await memory.store("key", 1)
    assert await memory.items() == {}
    assert memory.applied(AppConfig()).memory.enabled is False


async def test_users_do_not_meet(tmp_path: Path) -> None:
    await Memory(tmp_path, user_id="ann").store("key", "hers")
    assert await Memory(tmp_path, user_id="Ann").items() == {}
    assert await Memory(tmp_path, user_id="ann").load("key") == "hers"
