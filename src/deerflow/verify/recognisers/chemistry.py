"""Questions of chemistry: balancing, coefficients, molar masses."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from deerflow.verify.facts import Check, Question
from deerflow.verify.grammar import AnswerError
from deerflow.verify.reactions import Reaction, Species, atoms_of, chemical, mass_of, reactions
from deerflow.verify.readers import number

_BALANCE = re.compile(r"\bbalanc(?:e|ed|ing)\b|\bcoefficients?\b|配平|化学计量数|系数")
_COEFFICIENT = re.compile(r"\bcoefficient\s+(?:of|for|in\s+front\s+of|before)\s+(?:the\s+)?")
_MASS = re.compile(
    r"\b(?:molar|molecular|formula)\s+(?:mass|weight)|\brelative\s+(?:molecular|formula)\s+mass|\bmass\s+of\s+(?:one|1)\s+mole?"
    r"|相对分子质量|式量|摩尔质量"
)
_FORMULA = re.compile(
    r"(?<![A-Za-z0-9])(?:[A-Z][a-z]?[0-9]{0,2}|[()*.](?=[A-Z0-9(])|\)[0-9]{0,2})+(?![A-Za-z0-9])"
)
TOLERANCE = Fraction(4, 1000)
"""Share by which rounded atomic weights may move a molar mass."""
MOST_OFF = Fraction(6, 10)
"""In g/mol."""


def balancing(question: Question) -> Check | None:
    """An equation that is to be balanced."""
    if not _BALANCE.search(question.lower) or _COEFFICIENT.search(question.lower):
        return None
    found = reactions(chemical(question.raw))
    if len(found) != 1 or not _whole(found[0]):
        return None
    facts = _facts(found[0])
    return Check("balancing", "balanced", facts) if facts else None


def _whole(reaction: Reaction) -> bool:
    """Whether both sides have the same elements."""
    left, right = (
        {name for each in side for name, _ in each.atoms}
        for side in (reaction.left, reaction.right)
    )
    return left == right


def _facts(reaction: Reaction) -> dict[str, Any] | None:
    species: list[tuple[Species, int]] = [
        *((each, 1) for each in reaction.left),
        *((each, -1) for each in reaction.right),
    ]
    if len({(each.atoms, sign) for each, sign in species}) != len(species):
        return None
    elements = sorted({name for each, _ in species for name, _ in each.atoms})
    matrix = [[sign * dict(each.atoms).get(name, 0) for each, sign in species] for name in elements]
    return {
        "matrix": matrix,
        "left": len(reaction.left),
        "formulas": [[list(atom) for atom in each.atoms] for each, _ in species],
    }


def molar_mass(question: Question) -> Check | None:
    """The mass of a mole of a substance that is given by its formula."""
    found = _MASS.search(question.lower)
    if found is None or "->" in question.raw or re.search(r"[0-9]\s*(?:g|mol|L)\b", question.raw):
        return None
    text = re.sub(r"[A-Z]?[a-z]{3,}", " ", chemical(question.raw))
    formulas: dict[str, Fraction] = {}
    for match in _FORMULA.finditer(text):
        try:
            if sum(atoms_of(match.group()).values()) > 1 or len(match.group()) == 2:
                formulas[match.group()] = mass_of(match.group())
        except AnswerError:
            continue
    given = re.search(r"\b[A-Z][a-z]?\s*[:=]\s*[0-9]", question.raw) is not None
    if len(formulas) != 1 or given:
        return None
    mass = next(iter(formulas.values()))
    tolerance = min(mass * TOLERANCE, MOST_OFF)
    facts = {
        "target": number(mass / 1000),
        "dims": [["kg", 1], ["mol", -1]],
        "size": "1/1000",
        "bare": True,
        "tolerance": str(tolerance),
    }
    return Check("molar_mass", "quantity", facts)
