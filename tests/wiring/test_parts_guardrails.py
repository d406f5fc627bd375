"""Which provider of policy a configuration gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deerflow.errors import ConfigError
from deerflow.guardrails.allowlist import AllowlistProvider
from deerflow.guardrails.inmemory import InMemoryGuardrails
from deerflow.guardrails.oap import OapProvider
from deerflow.wiring.parts import make_guardrails
from fakes.harness import loaded, scripted_config

PASSPORT = {"passport_id": "p", "status": "active", "capabilities": []}


def made(home: Path, **guardrails: Any) -> Any:
    return make_guardrails(loaded(scripted_config([], guardrails=guardrails), home))


def test_nobody_decides_unless_it_is_switched_on(tmp_path: Path) -> None:
    provider = {"use": "allowlist"}
    assert made(tmp_path) is None
    assert made(tmp_path, enabled=False, provider=provider) is None
    assert isinstance(made(tmp_path, enabled=True, provider=provider), AllowlistProvider)


def test_a_passport_by_id_or_file(tmp_path: Path) -> None:
    for file in (tmp_path / "passports" / "p.json", tmp_path / "mine.json"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(PASSPORT))
    for name in ("p", "mine.json"):
        found = made(tmp_path, enabled=True, passport=name, provider={"use": "oap"})
        assert isinstance(found, OapProvider)


def test_an_own_class(tmp_path: Path) -> None:
    use = "deerflow.guardrails.inmemory:InMemoryGuardrails"
    assert isinstance(made(tmp_path, enabled=True, provider={"use": use}), InMemoryGuardrails)


@pytest.mark.parametrize(
    "provider",
    [
        {"use": "allowlst"},
        {"use": "no_such_module:Policy"},
        {"use": "deerflow.guardrails.inmemory:NoSuchClass"},
        {"use": "deerflow.guardrails.protocol:Action"},
        {"use": "builtins:dict"},
        {"use": "allowlist", "config": {"alowed_tools": ["ls"]}},
        {"use": "allowlist", "config": {"rules": [{"tools": "ls"}]}},
        {"use": "oap"},
    ],
)
def test_what_cannot_be_had_is_a_problem_of_the_configuration(
    tmp_path: Path, provider: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match="guardrails"):
        made(tmp_path, enabled=True, provider=provider)
