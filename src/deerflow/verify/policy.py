"""What is done to an answer before it counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from deerflow.errors import UsageError

Reference = Literal["", "content_free", "free"]

MOST_ATTEMPTS = 20
MOST_SAMPLES = 99


@dataclass(frozen=True, slots=True)
class Policy:
    """Which steps a question goes through.

    Attributes:
        max_attempts: answers of the resolver, 1 to 20.
        validate: a validator looks at each answer.
        blind: the validator answers by itself before it sees any answer.
        code_check: code that is built from the question has a say.
        adjudicate: a third role chooses when the two do not come together.
        self_check: the resolver goes over its own answer once.
        samples: fresh answers whose majority counts, 0 to 99: instead of a single one without a
            validator, as the last rung of the ladder with one.
        reference: the validator sees the key when it looks at an answer: "content_free" replaces
            what it tells the resolver by a fixed sentence, "free" does not. For measurements.

    Raises:
        UsageError: numbers out of range, or a key for a validator that is not asked.
    """

    max_attempts: int = 3
    validate: bool = True
    blind: bool = True
    code_check: bool = True
    adjudicate: bool = True
    self_check: bool = False
    samples: int = 0
    reference: Reference = ""

    def __post_init__(self) -> None:
        if not 1 <= self.max_attempts <= MOST_ATTEMPTS:
            raise UsageError(
                f"max_attempts is {self.max_attempts}.", cure=f"Take 1 to {MOST_ATTEMPTS}."
            )
        if not 0 <= self.samples <= MOST_SAMPLES:
            raise UsageError(f"samples is {self.samples}.", cure=f"Take 0 to {MOST_SAMPLES}.")
        if self.reference and not self.validate:
            raise UsageError(
                "The key is shown to the validator, and none is asked.", cure="Set validate."
            )

    @property
    def most_calls(self) -> int:
        """Calls of a model that a question takes at most, asks for unreadable replies aside."""
        if not self.validate:
            return self.samples or 1 + self.self_check
        calls = self.max_attempts * (2 + self.self_check)
        return calls + self.blind + self.adjudicate + self.samples
