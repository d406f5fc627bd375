"""Generated questions: repeatable, of good form, with keys that a second computation finds."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.errors import UsageError
from deerflow.exam.dataset import Question
from deerflow.exam.generators.drafts import amounts, polynomial, shown, three
from deerflow.exam.generators.heredity import offspring
from deerflow.exam.generators.registry import KINDS, generate
from deerflow.exam.generators.substances import atoms, balanced
from deerflow.exam.graders import compat

SEEDS = st.integers(0, 10**9)
NAMES = st.sampled_from(sorted(KINDS))


def key_of(made: dict[str, Any]) -> str:
    if made["answer_type"] == "text":
        return made["answer"]
    return made["options"]["ABCD".index(made["answer"])][3:]


def drawn(kind: str, seed: int, count: int = 4) -> list[dict[str, Any]]:
    return generate(seed, count, [kind])


@given(seed=SEEDS, name=NAMES)
def test_records_have_the_form_of_a_dataset(seed: int, name: str) -> None:
    made = drawn(name, seed)
    assert len({each["question"] for each in made}) == len(made)
    assert [each["id"] for each in made] == [f"{made[0]['subject']}-{201 + n}" for n in range(4)]
    for each in made:
        Question.model_validate(each)
        assert compat.grade(each, each["answer"]).correct
        if each["answer_type"] == "letter":
            assert len({option[3:] for option in each["options"]}) == 4
        else:
            assert not compat.grade(each, each["question"]).correct


@given(seed=SEEDS)
def test_the_same_seed_gives_the_same_questions(seed: int) -> None:
    made = generate(seed, 24)
    assert generate(seed, 24) == made
    assert generate(seed, 12) == made[:12]
    assert [e["question"] for e in generate(seed + 1, 24)] != [e["question"] for e in made]


def test_kinds_languages_forms_and_letters_take_turns() -> None:
    made = generate(7, 8 * len(KINDS))
    seen = Counter(
        (place % len(KINDS), each["type"], any("\u4e00" <= mark for mark in each["question"]))
        for place, each in enumerate(made)
    )
    for place in range(len(KINDS)):
        languages = {key[2] for key in seen if key[0] == place}
        assert languages == {True, False}, list(KINDS)[place]
    forms = Counter(each["type"] for each in made)
    assert min(forms.values()) >= len(made) * 0.35
    letters = Counter(each["answer"] for each in made if each["answer_type"] == "letter")
    assert max(letters.values()) - min(letters.values()) <= 1


@pytest.mark.parametrize("kinds", [[], ["alchemy"], ["speed", "alchemy"]])
def test_an_unknown_kind_is_refused(kinds: list[str]) -> None:
    with pytest.raises(UsageError, match="unknown kind"):
        generate(1, 1, kinds)


def test_a_kind_that_has_no_more_says_so() -> None:
    with pytest.raises(UsageError, match="no further question of the kind balancing"):
        generate(1, 100, ["balancing"])
    with pytest.raises(UsageError, match="more than 799 questions"):
        generate(1, 800, ["speed", "density", "force", "ohms_law"])


# ---- keys, computed a second time ------------------------------------------------------


def value_at(expression: str, x: int) -> int:
    """A polynomial or a product of two, by substitution."""
    code = re.sub(r"(?<=[0-9)])(?=[x(])", "*", expression.replace("^", "**"))
    return eval(code, {"__builtins__": {}}, {"x": x})


@given(seed=SEEDS)
def test_linear_equations_hold_for_the_key_alone(seed: int) -> None:
    for made in drawn("linear_equation", seed):
        left, right = re.findall(r"([-0-9x+ ]+) = ([-0-9x+ ]*[0-9x])", made["question"])[0]

        def holds(answer: str, left: str = left, right: str = right) -> bool:
            x = Fraction(answer.removeprefix("x = "))
            return value_at(left.strip(), x) == value_at(right.strip(), x)  # type: ignore[arg-type]

        assert holds(key_of(made))
        wrong = [option[3:] for option in made.get("options", []) if option[3:] != key_of(made)]
        assert [each for each in wrong if holds(each)] == []


@given(seed=SEEDS)
def test_roots_are_roots(seed: int) -> None:
    for made in drawn("quadratic_roots", seed):
        left = re.findall(r"(x\^2[-0-9x+ ]*) = 0", made["question"])[0]
        answers = [key_of(made), *(option[3:] for option in made.get("options", []))]
        for answer in answers:
            roots = {int(each) for each in re.findall(r"-?\d+", answer)}
            good = len(roots) == 2 and not any(value_at(left, root) for root in roots)
            assert good == (answer == key_of(made))


@pytest.mark.parametrize("kind", ["factoring", "expansion"])
@given(seed=SEEDS)
def test_products_agree_with_the_key_alone(kind: str, seed: int) -> None:
    for made in drawn(kind, seed):
        asked = re.findall(r"[-+0-9x^() ]*x[-+0-9x^() ]*[0-9)]", made["question"])[0].strip()
        answers = [key_of(made), *(option[3:] for option in made.get("options", []))]
        for answer in answers:
            same = all(value_at(asked, x) == value_at(answer, x) for x in range(-3, 4))
            assert same == (answer == key_of(made))


@given(seed=SEEDS)
def test_coefficients_balance(seed: int) -> None:
    for made in drawn("balancing", seed):
        for answer in [key_of(made), *(option[3:] for option in made.get("options", []))]:
            sums: list[Counter[str]] = []
            for side in answer.split(" -> "):
                total: Counter[str] = Counter()
                for number, formula in re.findall(r"(\d*)([A-Z]\w*)", side):
                    total.update({k: n * int(number or 1) for k, n in atoms(formula).items()})
                sums.append(total)
            assert (sums[0] == sums[1]) == (answer == key_of(made))


@given(seed=SEEDS)
def test_clocks_agree_with_the_calendar(seed: int) -> None:
    words = {-1: ("previous", "前一天"), 0: ("same", "同一天"), 1: ("next", "后一天")}
    for made in drawn("time_zone", seed):
        text = made["question"]
        here, there = (int(each or 0) for each in re.findall(r"UTC([+-]\d+)?", text))
        hour, minute = map(int, re.findall(r"(\d\d):(\d\d)", text)[0])
        start = datetime(2026, 5, 10, hour, minute, tzinfo=UTC)
        end = start + timedelta(hours=there - here)
        key = key_of(made)
        assert key.startswith(f"{end:%H:%M}")
        assert any(word in key for word in words[end.day - start.day])


@given(seed=SEEDS)
def test_years_are_counted_without_a_year_0(seed: int) -> None:
    for made in drawn("year_difference", seed):
        years = re.findall(r"(\d+)( BC)|AD (\d+)|(公元前) (\d+)|公元 (\d+)", made["question"])
        signed = [-int(bc or zh) if bc or zh else int(ad or gy) for bc, _, ad, _, zh, gy in years]
        calendar = [year for year in range(signed[0], signed[1] + 1) if year != 0]
        wanted = len(calendar) - 1
        assert re.findall(r"\d+", key_of(made)) == [str(wanted)]


@given(seed=SEEDS)
def test_molar_masses_are_sums_of_the_masses_that_are_told(seed: int) -> None:
    for made in drawn("molar_mass", seed):
        told, formula = made["question"].split("masses: ")[-1].split("：")[-1], made["question"]
        formula = re.findall(r"[A-Z][A-Za-z0-9()]*[0-9)H3]|[A-Z][a-z]?OH", formula)[0]
        masses = {name: Fraction(mass) for name, mass in re.findall(r"([A-Z]\w?) ([\d.]*\d)", told)}
        code = re.sub(r"([A-Z][a-z]?)", r"+masses['\1']", formula)
        code = re.sub(r"(?<=[\])])(\d+)", r"*\1", code.replace("(", "+("))
        assert eval(code, {"masses": masses}) == Fraction(key_of(made).split()[0])


PARTS = {
    "tall": 3, "short": 1, "round": 3, "wrinkled": 1, "yellow": 3, "green": 1,
    "高茎": 3, "矮茎": 1, "圆粒": 3, "皱粒": 1, "黄色": 3, "绿色": 1,
}  # fmt: skip
"""Fourths of the offspring of two mixed parents that show a trait."""


@given(seed=SEEDS)
def test_two_pairs_of_genes_give_sixteenths(seed: int) -> None:
    for made in drawn("punnett", seed, 6):
        if not re.search(r"(?:[A-Z][a-z]){2}(?: x | 自交)", made["question"]):
            continue
        asked = made["question"].split("offspring of")[-1].split("后代中")[-1]
        one, two = [parts for word, parts in PARTS.items() if word in asked]
        assert Fraction(key_of(made)) == Fraction(one * two, 16)


# ---- the parts -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("coefficients", "text"),
    [
        ((1, 0, -4), "x^2 - 4"),
        ((-1, 1), "-x + 1"),
        ((2, -5, 0), "2x^2 - 5x"),
        ((0, 0), "0"),
        ((3, 0, 0, 1), "3x^3 + 1"),
    ],
)
def test_polynomials_read_as_people_write_them(coefficients: tuple[int, ...], text: str) -> None:
    assert polynomial(*coefficients) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Fraction(6, 2), "3"),
        (Fraction(-1, 4), "-0.25"),
        (Fraction(1, 3), "1/3"),
        (Fraction(1, 10_000), "0.0001"),
        (-7, "-7"),
    ],
)
def test_numbers_read_as_people_write_them(number: Fraction, text: str) -> None:
    assert shown(number) == text


def test_mistakes_differ_from_the_key_and_each_other() -> None:
    assert three(5, [5, 10, 10]) == [10, 6, 7]
    assert amounts(4, [-4, Fraction(1, 3), 8, 2], "km") == ("4 km", ("8 km", "2 km", "5 km"))


def test_atoms_in_brackets_count_as_often_as_the_bracket() -> None:
    assert atoms("Al2(SO4)3") == {"Al": 2, "S": 3, "O": 12}
    assert balanced(("Fe", "O2"), ("Fe2O3",)) == (4, 3, 2)
    assert balanced(("H2",), ("O2",)) == ()


def test_a_cross_gives_its_square() -> None:
    assert Counter(offspring("Tt", "Tt")) == {"TT": 1, "Tt": 2, "tt": 1}
    assert Counter(offspring("Tt", "tt")) == {"Tt": 2, "tt": 2}


@given(seed=SEEDS, name=NAMES, chinese=st.booleans())
def test_a_draft_has_three_mistakes_that_are_not_the_key(
    seed: int, name: str, chinese: bool
) -> None:
    draft = KINDS[name](Random(seed), chinese)
    assert len({draft.key, *draft.wrong}) == 4
    assert any("\u4e00" <= mark <= "\u9fff" for mark in draft.text) == chinese
