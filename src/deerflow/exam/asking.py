"""Asks configured models; each ask is a conversation of its own."""

from __future__ import annotations

from collections.abc import Mapping

from deerflow.models.protocol import Catalog
from deerflow.models.resilience import Resilience
from deerflow.models.single import Form, ask_once
from deerflow.verify.forms import form
from deerflow.verify.prompts import without_shape
from deerflow.verify.protocol import Ask, Reply, RoleName


class ModelAsker:
    """Asks the model of a role: its instructions and one message, nothing of any other ask.

    Compact models are held to the form of the reply, so that they can be read and come to an end.

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
        said = await ask_once(
            self._catalog, self._resilience, name, ask.system, ask.prompt, _form(ask)
        )
        return Reply(said.text, said.tokens, said.latency_ms)


def _form(ask: Ask) -> Form | None:
    schema = form(ask)
    return None if schema is None else Form(schema, without_shape(ask.system))
