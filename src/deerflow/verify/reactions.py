"""Chemical formulas and equations: read by an own grammar, counted in atoms."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from deerflow.verify.grammar import AnswerError
from deerflow.verify.notation import plain

WEIGHTS: Mapping[str, str] = {
    row.split("=")[0]: row.split("=")[1]
    for row in (
        "H=1.008 He=4.0026 Li=6.94 Be=9.0122 B=10.81 C=12.011 N=14.007 O=15.999 F=18.998 "
        "Ne=20.180 Na=22.990 Mg=24.305 Al=26.982 Si=28.085 P=30.974 S=32.06 Cl=35.45 Ar=39.95 "
        "K=39.098 Ca=40.078 Sc=44.956 Ti=47.867 V=50.942 Cr=51.996 Mn=54.938 Fe=55.845 Co=58.933 "
        "Ni=58.693 Cu=63.546 Zn=65.38 Ga=69.723 Ge=72.630 As=74.922 Se=78.971 Br=79.904 Kr=83.798 "
        "Rb=85.468 Sr=87.62 Y=88.906 Zr=91.224 Nb=92.906 Mo=95.95 Ru=101.07 Rh=102.91 Pd=106.42 "
        "Ag=107.87 Cd=112.41 In=114.82 Sn=118.71 Sb=121.76 Te=127.60 I=126.90 Xe=131.29 Cs=132.91 "
        "Ba=137.33 La=138.91 Ce=140.12 W=183.84 Pt=195.08 Au=196.97 Hg=200.59 Pb=207.2 Bi=208.98 "
        "U=238.03"
    ).split()
}
"""Symbol → standard atomic weight in g/mol, abridged."""
MOST_SPECIES = 12
MOST_EQUATIONS = 30
REACH = 200
"""Characters on each side of an arrow that may be the equation's."""
LARGEST_COUNT = 400
"""Atoms of one kind in a formula, and coefficients of an equation."""

_ATOM = re.compile(r"([A-Z][a-z]?)([0-9]{0,3})|([(\[])|([)\]])([0-9]{0,3})")
_FORMULA = r"(?:[A-Z][a-z]?|[0-9]{1,3}|[()\[\]]|\.|\*)+"
_STATE = re.compile(r"\s*\((?:s|l|g|aq)\)|[↑↓]")
_TERM = rf"(?:(?:[0-9]{{1,3}}|_+|\?|\(\s*\))\s*\*?\s*)?(?=[A-Z(]){_FORMULA}"
_ARROW = r"(?:-{1,2}>|=+>?|→)"
_ARROWS = re.compile(_ARROW)
_CONDITION = r"(?:\s*\([^()]{1,20}\)\s*)?"
_EQUATION = re.compile(
    rf"(?P<left>{_TERM}(?:\s*\+\s*{_TERM})*){_CONDITION}\s*{_ARROW}\s*(?P<right>{_TERM}(?:\s*\+\s*{_TERM})*)"
)


@dataclass(frozen=True, slots=True)
class Species:
    """One substance of an equation: its formula, its coefficient, its atoms."""

    formula: str
    coefficient: int
    atoms: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Reaction:
    """What reacts and what comes of it."""

    left: tuple[Species, ...]
    right: tuple[Species, ...]


def atoms_of(formula: str) -> Counter[str]:
    """How many atoms of each element a formula has; water of crystals after a point.

    Raises:
        AnswerError: it is no formula of known elements.
    """
    total: Counter[str] = Counter()
    for part in re.split(r"[.*]", formula):
        found = re.match(r"([0-9]{0,3})(.*)", part)
        times = int(found[1] or 1) if found else 1
        for name, count in _counted(found[2] if found else "").items():
            total[name] += count * times
    if not total or max(total.values()) > LARGEST_COUNT:
        raise AnswerError("This is not a chemical formula.")
    return total


def _counted(text: str) -> Counter[str]:
    stack: list[Counter[str]] = [Counter()]
    place = 0
    while place < len(text):
        found = _ATOM.match(text, place)
        if found is None:
            raise AnswerError("This is not a chemical formula.")
        symbol, count, opening, closing, times = found.groups()
        if symbol:
            if symbol not in WEIGHTS:
                raise AnswerError(f"{symbol} is no known element.")
            stack[-1][symbol] += int(count or 1)
        elif opening:
            stack.append(Counter())
        elif closing and len(stack) > 1:
            for name, number in stack.pop().items():
                stack[-1][name] += number * int(times or 1)
        else:
            raise AnswerError("A bracket is not opened.")
        place = found.end()
    if len(stack) != 1:
        raise AnswerError("A bracket is not closed.")
    return stack[0]


def mass_of(formula: str) -> Fraction:
    """The molar mass of a formula in g/mol.

    Raises:
        AnswerError: it is no formula of known elements.
    """
    return sum(
        (Fraction(WEIGHTS[name]) * count for name, count in atoms_of(formula).items()), Fraction(0)
    )


def chemical(text: str) -> str:
    """A text in plain notation, without states of matter and without spaces inside formulas."""
    text = re.sub(r"\\(?:x?rightarrow|longrightarrow)\s*(?:\[[^\]]*\])?(?:\{[^{}]*\})?", "->", text)
    text = _STATE.sub("", plain(text))
    text = re.sub(r"\b(?:yields|gives|produces|forms)\b|生成|反应生成", " -> ", text)
    return re.sub(r"_(?=[0-9])|\^(?=[0-9]+(?![0-9+-]))", "", text)


def reactions(text: str) -> list[Reaction]:
    """The equations of a text, see `chemical`, in their order; what is none is passed over."""
    found: list[Reaction] = []
    end = 0
    for arrow in list(_ARROWS.finditer(text))[:MOST_EQUATIONS]:
        start = max(end, arrow.start() - REACH)
        match = _EQUATION.search(text[start : arrow.end() + REACH])
        if match is None:
            continue
        end = start + match.end()
        try:
            found.append(Reaction(_side(match["left"]), _side(match["right"])))
        except AnswerError:
            continue
    return found


def _side(text: str) -> tuple[Species, ...]:
    terms = [term.strip() for term in text.split("+")]
    if len(terms) > MOST_SPECIES:
        raise AnswerError("The equation has too many substances.")
    return tuple(_species(term) for term in terms)


def _species(text: str) -> Species:
    found = re.fullmatch(r"(?:([0-9]{1,3})|_+|\?|\(\s*\))?\s*\*?\s*(\S+)", text)
    if found is None:
        raise AnswerError("This is not a chemical formula.")
    coefficient = int(found[1] or 1)
    formula = found[2].rstrip(".*")
    if not 1 <= coefficient <= LARGEST_COUNT:
        raise AnswerError("A coefficient is out of bounds.")
    atoms = atoms_of(formula)
    return Species(formula, coefficient, tuple(sorted(atoms.items())))
