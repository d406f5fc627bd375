"""One question to a model, in a conversation of its own."""

from __future__ import annotations

import time
from dataclasses import dataclass

from langchain_core.messages import HumanMessage, SystemMessage

from deerflow.models.protocol import Catalog
from deerflow.models.resilience import Resilience
from deerflow.models.usage import Tokens, UsageMeter


@dataclass(frozen=True, slots=True)
class Said:
    """What a model said: its visible text, what it cost, milliseconds until it was there."""

    text: str
    tokens: Tokens
    latency_ms: int


async def ask_once(
    catalog: Catalog, resilience: Resilience, name: str, system: str, prompt: str
) -> Said:
    """Ask a configured model, or those that it falls over to, with retries.

    Args:
        catalog: the configured models.
        resilience: retries, breakers and slots of the process.
        name: configured name.
        system: its instructions.
        prompt: the only message.

    Raises:
        ModelError: none of them answers.
    """
    sent = [SystemMessage(system), HumanMessage(prompt)]

    async def attempt(model: str) -> Said:
        begun = time.monotonic()
        message = await catalog.get(model).ainvoke(sent)
        took = round((time.monotonic() - begun) * 1000)
        tokens = UsageMeter().record(message, catalog.spec(model), sent=sent)
        return Said(message.text, tokens, took)

    return await resilience.call(attempt, [name, *catalog.fallbacks(name)])
