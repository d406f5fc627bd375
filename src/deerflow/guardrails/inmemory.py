"""A provider that is told its verdicts and remembers what it was asked."""

from __future__ import annotations

from collections.abc import Mapping

from deerflow.guardrails.protocol import Action, Verdict


class InMemoryGuardrails:
    """Verdicts by tool name; everything else has the default.

    Attributes:
        actions: what it was asked, in order.
    """

    name = "memory"

    def __init__(
        self, verdicts: Mapping[str, Verdict] | None = None, default: Verdict | None = None
    ) -> None:
        self.verdicts = dict(verdicts or {})
        self.default = default or Verdict("allow")
        self.actions: list[Action] = []

    async def evaluate(self, action: Action) -> Verdict:
        """See GuardrailProvider."""
        self.actions.append(action)
        return self.verdicts.get(action.tool, self.default)
