"""Chemistry: balanced equations and molar masses."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from functools import lru_cache
from itertools import product
from random import Random

from deerflow.exam.generators.drafts import Difficulty, Draft, Number, amounts, shown

Side = tuple[str, ...]
REACTIONS: tuple[tuple[str, Difficulty], ...] = (
    ("Fe + O2 -> Fe2O3", "medium"),
    ("N2 + H2 -> NH3", "easy"),
    ("Al + Cl2 -> AlCl3", "easy"),
    ("P + O2 -> P2O5", "medium"),
    ("Na + Cl2 -> NaCl", "easy"),
    ("Mg + N2 -> Mg3N2", "easy"),
    ("Al + O2 -> Al2O3", "medium"),
    ("CH4 + O2 -> CO2 + H2O", "medium"),
    ("C3H8 + O2 -> CO2 + H2O", "hard"),
    ("C2H6 + O2 -> CO2 + H2O", "hard"),
    ("Fe2O3 + CO -> Fe + CO2", "hard"),
    ("Al + HCl -> AlCl3 + H2", "medium"),
    ("Na + H2O -> NaOH + H2", "medium"),
    ("KClO3 -> KCl + O2", "medium"),
    ("H2O2 -> H2O + O2", "easy"),
    ("Fe3O4 + H2 -> Fe + H2O", "hard"),
    ("NH3 + O2 -> NO + H2O", "hard"),
)
MASSES = {
    "H": Fraction(1),
    "C": Fraction(12),
    "N": Fraction(14),
    "O": Fraction(16),
    "Na": Fraction(23),
    "Mg": Fraction(24),
    "Al": Fraction(27),
    "S": Fraction(32),
    "Cl": Fraction(71, 2),
    "K": Fraction(39),
    "Ca": Fraction(40),
    "Fe": Fraction(56),
    "Cu": Fraction(64),
}
"""Rounded as school tables round them, in g/mol."""
COMPOUNDS = (
    "CaCO3", "H2SO4", "NaOH", "NH4NO3", "Al2O3", "CuSO4", "MgCl2", "KClO3", "C6H12O6", "Ca(OH)2",
    "Fe2O3", "NaHCO3", "C2H5OH", "Mg(OH)2", "Al2(SO4)3", "Ca(NO3)2",
)  # fmt: skip
PIECE = re.compile(r"([A-Z][a-z]?)(\d*)|\(([A-Za-z0-9]+)\)(\d*)")

LONG_FORMULA = re.compile(r"[A-Za-z][A-Za-z0-9]{2}")


def atoms(formula: str) -> Counter[str]:
    """How many atoms of each element a formula holds; one level of brackets."""
    found: Counter[str] = Counter()
    for element, number, group, times in PIECE.findall(formula):
        if element:
            found[element] += int(number or 1)
        else:
            for each, count in atoms(group).items():
                found[each] += count * int(times or 1)
    return found


@lru_cache(len(REACTIONS))
def balanced(left: Side, right: Side, limit: int = 13) -> tuple[int, ...]:
    """The smallest coefficients below `limit`; () when there are none."""
    sides = [atoms(each) for each in left] + [atoms(each) for each in right]
    signs = [1] * len(left) + [-1] * len(right)
    elements = sorted({name for side in sides for name in side})
    found = [
        numbers
        for numbers in product(range(1, limit), repeat=len(sides))
        if all(
            sum(s * n * side[name] for s, n, side in zip(signs, numbers, sides, strict=True)) == 0
            for name in elements
        )
    ]
    return min(found, key=sum, default=())


def _equation(left: Side, right: Side, numbers: tuple[int, ...]) -> str:
    terms = [
        f"{number if number > 1 else ''}{formula}"
        for number, formula in zip(numbers, left + right, strict=True)
    ]
    return f"{' + '.join(terms[: len(left)])} -> {' + '.join(terms[len(left) :])}"


def balancing(rng: Random, chinese: bool) -> Draft:
    """A reaction to balance; each mistake has one coefficient that does not fit."""
    reaction, level = rng.choice(REACTIONS)
    left, right = (tuple(side.split(" + ")) for side in reaction.split(" -> "))
    numbers = balanced(left, right)
    key = _equation(left, right, numbers)
    slips: list[str] = []
    for place in rng.sample(range(len(numbers)), len(numbers)):
        for change in (1, -1, 2):
            slip = (*numbers[:place], numbers[place] + change, *numbers[place + 1 :])
            if slip[place] > 0:
                slips.append(_equation(left, right, slip))
                break
    slips.append(_equation(left, right, (numbers[0] + 2, *numbers[1:])))
    text = f"配平化学方程式：{reaction}。" if chinese else f"Balance the equation: {reaction}."
    wrong = tuple(dict.fromkeys(slips))[:3]
    # A rubric finds any word of three marks, with or without its coefficient: a formula of that
    # length on the left would let the question itself pass for an answer.
    loose = LONG_FORMULA.search(key.split(" -> ")[0])
    criteria = () if loose else tuple(key.split(" -> "))
    tight = key.replace(" ", "")
    accept = (tight.replace("->", "="), tight)
    return Draft("chemistry", level, text, key, wrong, criteria, accept)


def molar_mass(rng: Random, chinese: bool) -> Draft:
    """The mass of one mole; the mistakes forget all indexes or count an atom too often."""
    formula = rng.choice(COMPOUNDS)
    counted = atoms(formula)
    value = sum((MASSES[name] * count for name, count in counted.items()), Fraction())
    given = [f"{name} {shown(MASSES[name])}" for name in counted]
    text = (
        f"{formula} 的摩尔质量是多少 g/mol？（相对原子质量：{'，'.join(given)}）"
        if chinese
        else f"What is the molar mass of {formula}, in g/mol? "
        f"(Relative atomic masses: {', '.join(given)}.)"
    )
    names = list(counted)
    mistakes: list[Number] = [
        sum((MASSES[name] for name in names), Fraction()),
        value + MASSES[names[0]],
        value - MASSES[names[-1]],
        value + MASSES[names[-1]],
    ]
    key, wrong = amounts(value, mistakes, "g/mol")
    level = "hard" if "(" in formula else "medium" if len(formula) > 4 else "easy"
    number = shown(value)
    return Draft("chemistry", level, text, key, wrong, (number,), (f"{number}g/mol",))
