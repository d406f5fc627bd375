"""One question to a model: what is sent, what comes back, who is held to a form."""

from __future__ import annotations

import json
from typing import Any, cast

from deerflow.config.schema import AppConfig, ModelConfig
from deerflow.models.catalog import ModelCatalog
from deerflow.models.resilience import Resilience
from deerflow.models.scripted import ScriptedChatModel
from deerflow.models.single import REPLY, Form, Said, ask_once
from deerflow.models.wire import WireModel

SCHEMA = {
    "type": "object",
    "properties": {"response": {"type": "string"}},
    "required": ["response"],
}
FORM = Form(SCHEMA, "Be brief.")
CALL = [{"name": REPLY, "args": {"response": "twölf"}}]


class Asked:
    """A catalogue of one scripted model, and what it was sent."""

    def __init__(self, script: list[dict[str, Any]], **facts: Any) -> None:
        use = "deerflow.models.scripted:ScriptedChatModel"
        entry = {"name": "one", "use": use, "script": script, **facts}
        self.catalog = ModelCatalog([ModelConfig.model_validate(entry)])

    async def said(self, form: Form | None) -> Said:
        config = AppConfig()
        resilience = Resilience(config.llm_call, config.circuit_breaker, models=1)
        return await ask_once(self.catalog, resilience, "one", "Be short.", "How many?", form)

    @property
    def sent(self) -> tuple[list[str], list[str]]:
        """The last request: its texts, and names of the tools that it offered."""
        inner = cast("WireModel", self.catalog.get("one")).inner
        request = cast("ScriptedChatModel", inner).requests[-1]
        return [message.text for message in request.messages], request.tool_names


async def test_what_is_sent_and_said() -> None:
    asked = Asked([{"text": "Twelve."}])
    said = await asked.said(None)
    assert (said.text, said.tokens.calls) == ("Twelve.", 1)
    assert asked.sent == (["Be short.", "How many?"], [])


async def test_a_compact_model_is_held_to_the_form() -> None:
    asked = Asked([{"calls": CALL}], compact=True)
    assert json.loads((await asked.said(FORM)).text) == {"response": "twölf"}
    assert asked.sent == (["Be brief.", "How many?"], [REPLY])


async def test_one_that_says_something_else_is_taken_at_its_word() -> None:
    assert (await Asked([{"text": "12"}], compact=True).said(FORM)).text == "12"


async def test_other_models_are_not_told_of_a_form() -> None:
    asked = Asked([{"text": "12"}])
    assert (await asked.said(FORM)).text == "12"
    assert asked.sent == (["Be short.", "How many?"], [])
