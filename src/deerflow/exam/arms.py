"""The arms of the experiment: each adds one thing to the one before, so its worth can be told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from deerflow.errors import UsageError
from deerflow.verify.policy import MOST_SAMPLES, Policy


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm.

    Attributes:
        name: on the command line.
        policy: what is done to an answer.
        sentence: what it is, for reports.
        leaky: the key has a way into the answers, so its figures stand apart from all others.
    """

    name: str
    policy: Policy
    sentence: str
    leaky: bool = False


_ONCE = Policy(max_attempts=1, validate=False, blind=False, code_check=False, adjudicate=False)
_PAIR = replace(_ONCE, max_attempts=3, validate=True)
_BLIND = replace(_PAIR, blind=True)
_CHECKED = replace(_BLIND, code_check=True)

_ALL = (
    Arm("A0", _ONCE, "The resolver answers once."),
    Arm("A1", replace(_ONCE, self_check=True), "The resolver goes over its own answer once."),
    Arm("A2", _PAIR, "A validator looks at each answer and sends wrong ones back."),
    Arm("A3", _BLIND, "As A2, and the validator answers by itself before it sees any answer."),
    Arm("A4", _CHECKED, "As A3, and code that is built from the question has a say."),
    Arm(
        "A5", replace(_CHECKED, adjudicate=True), "As A4, and an adjudicator settles what is left."
    ),
    Arm(
        "A6",
        replace(_ONCE, samples=_PAIR.most_calls),
        "The majority of as many answers as A2 takes calls at most.",
    ),
    Arm(
        "R1",
        replace(_PAIR, reference="content_free"),
        "As A2, with the key before the validator; the resolver hears only that it was wrong.",
        leaky=True,
    ),
    Arm(
        "R2",
        replace(_PAIR, reference="free"),
        "As A2, with the key before the validator, who says what it likes: an upper bound.",
        leaky=True,
    ),
)

ARMS: Mapping[str, Arm] = MappingProxyType({arm.name: arm for arm in _ALL})
"""All arms in order."""


def matched(calls: float) -> Arm:
    """A6 with as many samples as A2 was measured to take calls per question, rounded.

    Args:
        calls: mean calls per question of an exam under A2, at least 1.

    Raises:
        UsageError: fewer than one call, or more than samples can be.
    """
    samples = round(calls) if 0 < calls <= MOST_SAMPLES else 0
    if not samples:
        raise UsageError(f"{calls:g} calls per question.", cure=f"Give 1 to {MOST_SAMPLES}.")
    sentence = f"The majority of {samples} answers: as many calls as A2 took."
    return Arm("A6", replace(_ONCE, samples=samples), sentence)
