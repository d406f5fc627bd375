"""Checks by code: the shared questions, paraphrases, hostile answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sympy

from deerflow.verify.checks import CodeChecker, build
from deerflow.verify.messages import Problem
from deerflow.verify.programs.verdict import said
from deerflow.verify.running import ChildPython, Ran

SHARED = Path(__file__).parents[3] / "shared" / "exam" / "questions.json"
CHECKABLE = [*(f"math-00{number}" for number in range(1, 9)), "physics-005", "chemistry-005"]


class SameProcess:
    """Runs the checking program here; the data pass through JSON as they would otherwise."""

    async def run(self, program: str, data: bytes) -> Ran:
        assert program
        return Ran(0, json.dumps(said(json.loads(data))))


def shared() -> dict[str, Any]:
    if not SHARED.exists():
        pytest.skip("the shared questions are not here")
    return {each["id"]: each for each in json.loads(SHARED.read_text(encoding="utf-8"))}


def problem(id: str) -> Problem:
    row = shared()[id]
    return Problem(
        id, row["question"], row["answer_type"], tuple(row.get("options", ())), row["subject"]
    )


ANSWERS: dict[str, tuple[list[str], list[str]]] = {
    "math-001": (["A", " A. ", "Answer: A", "(A)", "**A**", "答案是A", "x^2-4"], ["D", "B"]),
    "math-002": (["B", "The answer is B", "选B", "4", "x = 4"], ["A", "C", "x=5"]),
    "math-003": (["B", "1/2", "0.5"], ["C", "D", r"\frac{\sqrt{3}}{2}"]),
    "math-004": (["C", "-16", "Ｃ"], ["A", "B", "D", "16"]),
    "math-005": (
        ["x = 12", "3x - 2x = 5 + 7\nx = 12", "12", "**x = 12**", r"\boxed{12}", "x equals 12",
         "Add 7: x = 12. Check: 3*12-7 = 29 = 2*12+5.", "移项得 3x-2x=5+7，所以 x=12。"],
        ["x = 13", "x = -12", "moves equals -99", "x equals 2", "12 or 13", "x = 12 or x = 13"],
    ),
    "math-006": (
        ["(x-2)(x-3)", "(x−3)(x−2)", "x^2 - 5x + 6 = (x-2)(x-3)", "(2-x)(3-x)",
         "The factors are (x-2) and (x-3)", "Roots are 2 and 3, so the answer is (x-2)(x-3)."],
        ["(x+2)(x+3)", "(x-1)(x-6)", "x^2-5x+6", "x(x-5)+6"],
    ),
    "math-007": (
        ["5", "5.0", "sqrt(25)", "√25", "5 cm", "c = sqrt(3^2+4^2) = sqrt(25) = 5",
         "The hypotenuse is 5."],
        ["7", "25", "15.0 cm", "c = 6"],
    ),
    "math-008": (
        ["x = 4, y = 3", "y=3, x=4", "(4, 3)", "x=4\ny=3", r"\boxed{x=4,\ y=3}",
         "Adding: 2x = 8, so x = 4. Then y = 7 - 4 = 3.", "答：x=4，y=3"],
        ["x = 3, y = 4", "x = 4", "(3,4)", "x=4, y=-3"],
    ),
    "physics-005": (
        ["5 m/s²", "5 m/s^2", "5 m/s2", "a = F/m = 10/2 = 5 m/s^2", "5米/秒²", "500 cm/s^2",
         "5 meters per second squared", r"$5\ \text{m/s}^2$"],
        ["20 m/s^2", "5 m/s", "6", "0.2 m/s^2", "5 N"],
    ),
    "chemistry-005": (
        ["2H2 + O2 -> 2H2O", "2H₂ + O₂ → 2H₂O", "2H2+O2=2H2O", "O2 + 2H2 -> 2H2O", "2, 1, 2",
         r"$2H_2 + O_2 \rightarrow 2H_2O$", "2 H2(g) + O2(g) → 2 H2O(l)"],
        ["H2 + O2 -> H2O", "H2 + O2 -> H2O2", "2H2 + 2O2 -> 2H2O"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("id", CHECKABLE)
async def test_right_answers_are_verified_and_wrong_ones_refuted(id: str) -> None:
    checker = CodeChecker(SameProcess())
    right, wrong = ANSWERS[id]
    results = {each: (await checker.check(problem(id), each)).result for each in (*right, *wrong)}
    assert results == dict.fromkeys(right, "verified") | dict.fromkeys(wrong, "refuted")


@pytest.mark.parametrize("id", CHECKABLE)
async def test_each_key_passes_in_a_process_of_its_own(id: str) -> None:
    assert sympy.__version__  # loading it here leaves it compiled for the child
    outcome = await CodeChecker(ChildPython()).check(problem(id), shared()[id]["answer"])
    assert outcome.result == "verified", outcome


def test_other_shared_questions_have_no_check() -> None:
    assert [id for id in shared() if id not in CHECKABLE and build(problem(id))] == []


CASES = [
    ("解方程 3x-7=2x+5", "x=12", "x=11"),
    ("Solve x^2 - 5x + 6 = 0.", "x = 2 or x = 3", "x = 2"),
    ("求方程 x²-4=0 的根", "x=±2", "x=2"),
    ("因式分解：x²-9", "(x+3)(x-3)", "(x-3)^2"),
    ("Expand (x+3)^2", "x^2+6x+9", "(x+3)^2"),
    ("Calculate 3 + 4 * 5", "23", "35"),
    ("计算：12÷4+3", "6", "7"),
    ("What is 15% of 80?", "12", "15"),
    ("20 is what percent of 80?", "25%", "40%"),
    ("A price rises from 80 to 100. What is the percentage increase?", "25%", "20%"),
    ("Find the average of 4, 8 and 12.", "8", "9"),
    ("求 4、8、12 的平均数", "8", "7"),
    ("A car travels 150 km in 3 hours. What is its average speed in km/h?", "50", "45 km/h"),
    ("一辆汽车3小时行驶150千米，求平均速度。", "50千米/时", "40 km/h"),
    ("An object has a mass of 20 g and a volume of 10 cm³. What is its density?", "2 g/cm³", "2 g"),
    ("质量为2千克的物体受到10牛的力，求加速度。", "5米/秒²", "20 m/s²"),
    ("What force gives a 3 kg mass an acceleration of 4 m/s^2?", "12 N", "0.75 N"),
    ("A voltage of 12 V is applied across a 4 Ω resistor. What is the current?", "3 A", "48 A"),
    ("Convert 5 km to m.", "5000 m", "500 m"),
    ("Convert 25 °C to Fahrenheit.", "77 °F", "80 °F"),
    ("配平：Fe + O2 → Fe2O3", "4Fe + 3O2 → 2Fe2O3", "2Fe + O2 -> Fe2O3"),
    ("What is the molar mass of Ca(OH)2?", "74 g/mol", "57 g/mol"),
    ("Two plants with genotype Aa x Aa are crossed. What is the phenotype ratio?", "3:1", "1:1"),
    ("In a cross Aa x aa, what is the probability of a recessive offspring?", "50%", "25%"),
    ("On a map with a scale of 1:50000, two towns are 4 cm apart. What is the actual distance?",
     "2 km", "20 km"),
    ("When it is 10:00 in Beijing (UTC+8), what time is it in London (UTC+0)?", "02:00", "18:00"),
    ("北京（东八区）10:00时，纽约（西五区）是几点？", "前一天21:00", "15:00"),
    ("How many years are there between 1911 and 1949?", "38 years", "39"),
    ("Find the value of 2x + 3 when x = 4.", "11", "12"),
    ("Find the sum of the roots of x^2 - 7x + 10 = 0", "7", "-7"),
    ("What is the greatest common divisor of 12 and 18?", "6", "3"),
    ("If x + y = 10 and x - y = 2, what is x?", "6", "4"),
    ("The hypotenuse of a right triangle is 13 cm and one leg is 5 cm. Find the other leg.",
     "12 cm", "8 cm"),
]  # fmt: skip


@pytest.mark.parametrize(("question", "right", "wrong"), CASES, ids=[each[0] for each in CASES])
async def test_a_kind_in_other_words_and_numbers(question: str, right: str, wrong: str) -> None:
    checker = CodeChecker(SameProcess())
    results = [
        (await checker.check(Problem("q", question), each)).result for each in (right, wrong)
    ]
    assert results == ["verified", "refuted"], build(Problem("q", question))


@pytest.mark.parametrize(
    "question",
    [
        "Define 'inertia' in one sentence.",
        "Two resistors of 4 Ω and 6 Ω are in series with 12 V. What is the current?",
        "When did the Qing dynasty fall?",
        "x" * 5_000,
        "\0 Solve x = 2",
    ],
)
async def test_what_code_cannot_decide_is_not_applicable(question: str) -> None:
    outcome = await CodeChecker(SameProcess()).check(Problem("q", question), "5")
    assert outcome.result == "not_applicable"


HOSTILE = [
    "", "__import__('os').system('touch pwned')", "10^10^10", "9**9**9**9", "x" * 10**6,
    "(" * 5_000, "\0", "x = \0", "٣", "x = ٣", "\ud800", "x = 10^1000000", "x = 1/0",
    "x = exp(exp(exp(100)))", "[" * 1_900, "x = log(0)", r"\frac{" * 3_000, r"\boxed{" * 2_000,
]  # fmt: skip


@pytest.mark.parametrize("answer", HOSTILE, ids=lambda text: ascii(text[:20]))
async def test_a_hostile_answer_is_a_failed_check(answer: str) -> None:
    questions = ("Solve 3x - 7 = 2x + 5.", "Balance: H2 + O2 -> H2O.", "Factor x^2 - 9.")
    checker = CodeChecker(SameProcess())
    results = [(await checker.check(Problem("q", each), answer)).result for each in questions]
    assert results == ["check_failed"] * 3


@pytest.mark.parametrize("ran", [Ran(1, ""), Ran(0, "no json"), Ran(0, "[]"), Ran(124, "", "time")])
async def test_a_program_that_fails_verifies_nothing(ran: Ran) -> None:
    class Fixed:
        async def run(self, program: str, data: bytes) -> Ran:
            return ran

    outcome = await CodeChecker(Fixed()).check(Problem("q", "Solve 2x = 4."), "x = 2")
    assert outcome.result == "check_failed"
