"""One question to a model, in a conversation of its own."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from deerflow.models.protocol import Catalog
from deerflow.models.resilience import Resilience
from deerflow.models.usage import Tokens, UsageMeter

REPLY = "reply"
"""Name of the call whose arguments are the reply of a small model."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a model said: its visible text, what it cost, milliseconds until it was there."""

    text: str
    tokens: Tokens
    latency_ms: int


@dataclass(frozen=True, slots=True)
class Form:
    """What a compact model is held to.

    Attributes:
        schema: JSON schema of an object; the model says nothing but such an object.
        system: instructions that say nothing about JSON: a small model copies what is said.
    """

    schema: Mapping[str, Any]
    system: str


async def ask_once(
    catalog: Catalog,
    resilience: Resilience,
    name: str,
    system: str,
    prompt: str,
    form: Form | None = None,
) -> Said:
    """Ask a configured model, or those that it falls over to, with retries.

    Args:
        catalog: the configured models.
        resilience: retries, breakers and slots of the process.
        name: configured name.
        system: its instructions.
        prompt: the only message.
        form: for compact models that can call tools; others are not told of it.

    Raises:
        ModelError: none of them answers.
    """

    async def attempt(model: str) -> Said:
        begun = time.monotonic()
        spec, chat = catalog.spec(model), catalog.get(model)
        sent = [SystemMessage(system), HumanMessage(prompt)]
        if form is not None and spec.compact and spec.tools:
            sent[0] = SystemMessage(form.system)
            message = await chat.bind_tools([_tool(form)], tool_choice=REPLY).ainvoke(sent)
        else:
            message = await chat.ainvoke(sent)
        took = round((time.monotonic() - begun) * 1000)
        tokens = UsageMeter().record(message, spec, sent=sent)
        return Said(_text(message), tokens, took)

    return await resilience.call(attempt, [name, *catalog.fallbacks(name)])


def _tool(form: Form) -> dict[str, Any]:
    about = {"name": REPLY, "description": "Give the reply.", "parameters": dict(form.schema)}
    return {"type": "function", "function": about}


def _text(message: AIMessage) -> str:
    """The arguments of the call that a form was offered as, else the visible text."""
    for call in message.tool_calls:
        if call["name"] == REPLY:
            return json.dumps(call["args"], ensure_ascii=False)
    return message.text
