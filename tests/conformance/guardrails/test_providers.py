"""What every provider of policy does; authors of their own add it to `PROVIDERS`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deerflow.guardrails.allowlist import AllowlistProvider
from deerflow.guardrails.inmemory import InMemoryGuardrails
from deerflow.guardrails.oap import OapProvider
from deerflow.guardrails.protocol import Action, GuardrailProvider, Verdict

ASK = {"tools": "write_file", "decision": "ask", "reason": "look first", "expires_seconds": 60}


def memory(_: Path) -> GuardrailProvider:
    return InMemoryGuardrails(
        {
            "bash": Verdict("deny", "no shell", "rule"),
            "write_file": Verdict("ask", "look first", "rule", 60),
        }
    )


def allowlist(_: Path) -> GuardrailProvider:
    return AllowlistProvider(denied_tools=["bash"], rules=[ASK])


def oap(folder: Path) -> GuardrailProvider:
    capabilities = [{"id": "data.file.read"}, {"id": "data.file.write"}]
    passport = {"passport_id": "p", "status": "active", "capabilities": capabilities}
    (folder / "p.json").write_text(json.dumps(passport))
    return OapProvider(file=folder / "p.json", rules=[ASK])


PROVIDERS: list[Callable[[Path], GuardrailProvider]] = [memory, allowlist, oap]


@pytest.fixture(params=PROVIDERS, ids=lambda make: make.__name__)
def provider(request: Any, tmp_path: Path) -> GuardrailProvider:
    return request.param(tmp_path)


def action(tool: str, **args: Any) -> Action:
    return Action(tool, args, "ann", "t", "r1", "lead", sandbox=True)


async def test_it_has_a_name_and_fits_the_contract(provider: GuardrailProvider) -> None:
    assert isinstance(provider, GuardrailProvider)
    assert provider.name


@pytest.mark.parametrize(
    ("tool", "decision"), [("read_file", "allow"), ("bash", "deny"), ("write_file", "ask")]
)
async def test_the_three_verdicts(provider: GuardrailProvider, tool: str, decision: str) -> None:
    for _ in range(3):  # the same question has the same answer
        verdict = await provider.evaluate(action(tool, path="a"))
        assert verdict.decision == decision
        assert decision == "allow" or (verdict.reason and verdict.policy)


async def test_ask_says_when_it_is_over_and_what_that_means(provider: GuardrailProvider) -> None:
    verdict = await provider.evaluate(action("write_file", path="a"))
    assert (verdict.expires_seconds, verdict.default) == (60, "deny")


@pytest.mark.parametrize(
    "args",
    [{}, {"path": None}, {"path": ["a", {"b": [1, 2.5, True]}]}, {"x": "y" * 200_000}, {"": ""}],
)
async def test_odd_arguments_are_judged_like_others(
    provider: GuardrailProvider, args: dict[str, Any]
) -> None:
    before = json.dumps(args)
    assert (await provider.evaluate(action("bash", **args))).decision == "deny"
    assert json.dumps(args) == before
