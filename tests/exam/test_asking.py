"""Asking configured models: one conversation for each ask; compact models fill in a form."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from deerflow.config.schema import AppConfig, ModelConfig
from deerflow.exam.asking import ModelAsker
from deerflow.models.catalog import ModelCatalog
from deerflow.models.resilience import Resilience
from deerflow.models.scripted import ScriptedChatModel
from deerflow.models.single import REPLY
from deerflow.models.wire import WireModel
from deerflow.verify import prompts
from deerflow.verify.messages import Problem
from deerflow.verify.protocol import Ask, RoleName, Step

LETTER = Problem("math-001", "Which?", "letter", ("A. one", "B. two"))
ANSWER = {"reasoning": "counted", "response": "B", "confidence": 0.5}


def ask(role: RoleName, step: Step) -> Ask:
    system = prompts.system(role, LETTER)
    return Ask(LETTER, role, step, 1, system, prompts.question(LETTER))


def asker(*turns: dict[str, Any], compact: bool) -> tuple[ModelAsker, ScriptedChatModel]:
    """An asker of one model for all roles, and that model."""
    use = "deerflow.models.scripted:ScriptedChatModel"
    entry = {"name": "one", "use": use, "script": list(turns), "compact": compact}
    catalog, config = ModelCatalog([ModelConfig.model_validate(entry)]), AppConfig()
    resilience = Resilience(config.llm_call, config.circuit_breaker, models=1)
    inner = cast("WireModel", catalog.get("one")).inner
    roles: list[RoleName] = ["resolver", "validator", "adjudicator"]
    found = ModelAsker(catalog, resilience, dict.fromkeys(roles, "one"))
    return found, cast("ScriptedChatModel", inner)


async def test_each_ask_is_a_conversation_of_its_own() -> None:
    asks, model = asker({"text": "one"}, {"text": "two"}, compact=False)
    first, second = ask("resolver", "resolve"), ask("validator", "blind")
    assert [(await asks.ask(each)).text for each in (first, second)] == ["one", "two"]
    for each, request in zip((first, second), model.requests, strict=True):
        assert [message.text for message in request.messages] == [each.system, each.prompt]
        assert request.tools == []


async def test_a_compact_model_fills_in_the_form() -> None:
    asks, model = asker({"calls": [{"name": REPLY, "args": ANSWER}]}, compact=True)
    assert json.loads((await asks.ask(ask("resolver", "resolve"))).text) == ANSWER
    [request] = model.requests
    offered = request.tools[0]["function"]["parameters"]["properties"]
    assert offered["response"] == {"enum": ["A", "B"]}
    assert "JSON" not in request.messages[0].text


@pytest.mark.parametrize("compact", [True, False])
async def test_a_second_reply_has_no_form(compact: bool) -> None:
    asks, model = asker({"text": "B"}, compact=compact)
    assert (await asks.ask(ask("validator", "reask"))).text == "B"
    assert model.requests[0].tools == [] and "JSON" in model.requests[0].messages[0].text
