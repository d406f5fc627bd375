"""The seam of figures for operators: what is counted of runs.

Nothing of it is on the way of a run: figures are read off the log after the commit.
"""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

Phase = Literal["queued", "run", "model", "tool", "subagent"]
"""What a duration is of: waiting for a worker, a whole run, a model call, a tool call, a child."""

Node = Literal["model", "tools", "subagent"]
"""What was executed: a turn of a model, a call of a tool, a child agent."""


@runtime_checkable
class Metrics(Protocol):
    """Figures of this process since its start. Every method is quick and raises nothing."""

    def took(self, phase: Phase, seconds: float) -> None:
        """Something has ended after so many seconds."""
        ...

    def executed(self, node: Node) -> None:
        """A node of the graph has done its work once."""
        ...

    def asked_human(self) -> None:
        """A run needs a person: an approval, or an answer to a question."""
        ...

    def checkpoint(self, size: int) -> None:
        """Bytes of the newest checkpoint, without values that older ones hold already."""
        ...

    def tokens(self, model: str, count: int) -> None:
        """Tokens of a paid model call, input and output."""
        ...

    def tool_failed(self, tool: str) -> None:
        """A tool call has ended with an error."""
        ...
