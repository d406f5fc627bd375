"""Asks configured models; each ask is a conversation of its own."""

from __future__ import annotations

import time
from collections.abc import Mapping

from langchain_core.messages import HumanMessage, SystemMessage

from deerflow.agent.record import visible_text
from deerflow.models.protocol import Catalog
from deerflow.models.resilience import Resilience
from deerflow.models.usage import UsageMeter
from deerflow.verify.protocol import Ask, Reply, RoleName


class ModelAsker:
    """Asks the model of a role: its instructions and one message, nothing of any other ask.

    Args:
        catalog: the configured models.
        resilience: retries, breakers and slots of the process.
        models: configured name by role.
    """

    def __init__(
        self, catalog: Catalog, resilience: Resilience, models: Mapping[RoleName, str]
    ) -> None:
        self._catalog = catalog
        self._resilience = resilience
        self._models = models

    async def ask(self, ask: Ask) -> Reply:
        """See Asker."""
        name = self._models[ask.role]
        sent = [SystemMessage(ask.system), HumanMessage(ask.prompt)]
        used = name

        async def attempt(model: str) -> Reply:
            nonlocal used
            used = model
            begun = time.monotonic()
            message = await self._catalog.get(model).ainvoke(sent)
            tokens = UsageMeter().record(message, self._catalog.spec(model), sent=sent)
            return Reply(visible_text(message), tokens, round((time.monotonic() - begun) * 1000))

        return await self._resilience.call(attempt, [name, *self._catalog.fallbacks(name)])
