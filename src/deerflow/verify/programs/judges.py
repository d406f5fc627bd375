"""Whether an answer is right, by kind of question; runs inside a sandbox, beside sympy."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

import sympy

from deerflow.verify.programs.trees import BoundsError, equal, rebuild

Judged = tuple[str, str]
"""right, wrong or unsure; and a sentence that says why."""
RIGHT: Judged = ("right", "The answer agrees with the computed result.")
WRONG: Judged = ("wrong", "The answer does not agree with the computed result.")
ROUNDED: Judged = ("unsure", "The answer is rounded; the exact result was asked for.")
FEWEST_DIGITS = 3
"""Significant digits from which on a rounded number says enough."""


def value(facts: dict[str, Any], answer: Any) -> Judged:
    """An expression or a number that must equal another, in the form that was asked for."""
    wanted = target(facts)
    got = members(rebuild(answer))
    if len(got) > 1 and not all(equal(got[0], other) for other in got[1:]):
        return "wrong", "The answer gives several results, the question has one."
    if facts.get("percent") and "percent" not in str(answer):
        if equal(got[0], wanted) and not wanted.is_zero:
            return "unsure", "The question asks for percent; the answer has no % sign."
        got = [got[0] / 100]
    if equal(got[0], wanted):
        return in_form(facts, answer, wanted)
    slack = sympy.Rational(facts.get("slack", "0"))
    if not got[0].free_symbols and slack and abs(got[0] - wanted) <= slack:
        return RIGHT
    return near(answer, got[0], wanted, bool(facts.get("rounded")))


def members(got: Any) -> list[Any]:
    """The values of a list, each equation by its last side."""
    if not isinstance(got, tuple):
        return [got]
    flat = [each[-1] if isinstance(each, tuple) else each for each in got]
    if any(isinstance(each, tuple) for each in flat):
        raise BoundsError("a list of lists")
    return flat


def target(facts: dict[str, Any]) -> Any:
    """The result that the question asks for."""
    if "system" in facts:
        return at_solution(facts)
    if "measure" not in facts:
        return rebuild(facts["target"])
    name = sympy.Symbol(facts["unknown"])
    polynomial = sympy.Poly(rebuild(facts["left"]) - rebuild(facts["right"]), name)
    measure = facts["measure"]
    if measure == "discriminant":
        return polynomial.discriminant()
    if measure == "root_count":
        return sympy.Integer(len(set(sympy.real_roots(polynomial))))
    degree = polynomial.degree()
    if degree < 1:
        raise BoundsError("no equation")
    first, second, last = (polynomial.nth(place) for place in (degree, degree - 1, 0))
    if measure == "root_sum":
        return -second / first
    return (-1) ** degree * last / first


def at_solution(facts: dict[str, Any]) -> Any:
    """An expression in the unknowns of a system, at its one solution."""
    names = [sympy.Symbol(name) for name in facts["unknowns"]]
    rows = solved({"equations": facts["system"]}, names)
    if len(rows) != 1:
        raise BoundsError("no single solution")
    return sympy.simplify(rebuild(facts["target"]).subs(list(zip(names, rows[0]))))  # noqa: B905


def in_form(facts: dict[str, Any], tree: Any, wanted: Any) -> Judged:
    """A right value must also be worked out, not only be the question again."""
    form = facts.get("form", "")
    if form == "expanded" and products_of_sums(tree):
        return "wrong", "The answer has the right value but is not multiplied out."
    if form == "simplified" and operations(tree) >= operations(facts["target"]):
        if tree == facts["target"] or operations(tree) > operations(facts["target"]):
            return "wrong", "The answer has the right value but is not simplified."
    if form == "plain" and wanted.is_Rational and not plain_number(tree):
        return "unsure", "The answer has the right value but is not worked out."
    return RIGHT


def products_of_sums(tree: Any) -> bool:
    """Whether a sum stands inside a product or a power."""
    if not isinstance(tree, list):
        return False
    if tree[0] in ("mul", "pow", "div"):
        inner = tree[2:3] if tree[0] in ("pow", "div") else tree[2:]
        if any(strip(child)[0] in ("add", "sub") for child in inner):
            return True
    return any(products_of_sums(child) for child in tree[2:])


def strip(tree: Any) -> Any:
    """The tree without signs around it."""
    while tree[0] == "neg":
        tree = tree[2]
    return tree


def operations(tree: Any) -> int:
    """Operations of a formula, signs left out."""
    if not isinstance(tree, list):
        return 0
    own = 0 if tree[0] in ("number", "name", "pi", "neg") else 1
    return own + sum(operations(child) for child in tree[2:])


def plain_number(tree: Any) -> bool:
    """Whether a tree is a number, a fraction, a mixed number or a power of ten times a number."""
    tree = strip(tree)
    if tree[0] == "equation":
        return plain_number(tree[-1])
    if tree[0] == "list":
        return all(plain_number(child) for child in tree[2:])
    if tree[0] == "percent":
        return plain_number(tree[2])
    if tree[0] in ("number", "name"):
        return True
    parts = [strip(child) for child in tree[2:]]
    if tree[0] == "mul":
        return parts[0][0] == "number" and parts[1][:1] == ["pow"] and parts[1][2][1] == "10"
    if tree[0] == "add":
        return parts[0][0] == "number" and parts[1][0] == "div" and plain_number(parts[1])
    if tree[0] in ("div", "pow"):
        return all(part[0] == "number" for part in parts)
    return False


def near(tree: Any, got: Any, wanted: Any, rounded: bool) -> Judged:
    """What to say of a number that is not equal: rounded, or wrong."""
    written = strip(tree[-1] if tree[0] == "equation" else tree)
    if written[0] == "percent":
        written = written[2]
        got, wanted = got * 100, wanted * 100
    if written[0] != "number" or got.free_symbols or wanted.free_symbols or not wanted.is_real:
        return WRONG
    if abs(wanted - got) > step(written[1]) / 2:
        return WRONG
    return RIGHT if rounded and significant(written[1]) >= 1 else ROUNDED


def step(digits: str) -> Any:
    """The weight of the last digit that is written."""
    _, _, after = digits.partition(".")
    return sympy.Rational(1, 10 ** len(after))


def significant(digits: str) -> int:
    """How many digits count."""
    return len(digits.replace(".", "").lstrip("0"))


def quantity(facts: dict[str, Any], answer: Any) -> Judged:
    """A number with a unit, compared in SI base units."""
    wanted = target(facts)
    number = rebuild(answer["number"])
    if facts.get("any_unit") or (answer["dims"] is None and facts.get("bare")):
        size = sympy.Rational(facts.get("size", "1"))
    elif answer["dims"] is None:
        size = sympy.Rational(facts.get("size", "1"))
        if same(facts, answer, number * size, wanted, size) == RIGHT:
            return "unsure", "The number is right, but the answer gives no unit."
        return WRONG
    elif answer["dims"] != facts["dims"]:
        return "wrong", "The unit of the answer does not fit what is asked for."
    else:
        size = sympy.Rational(answer["size"])
    offset = sympy.Rational(facts.get("offset", "0"))
    return same(facts, answer, number * size + offset, wanted, size)


def same(facts: dict[str, Any], answer: Any, got: Any, wanted: Any, size: Any) -> Judged:
    """Whether two sizes agree, as far as the digits that are written say so."""
    difference = abs(got - wanted)
    if difference.is_zero or equal(got, wanted):
        return RIGHT
    if "tolerance" in facts:
        return RIGHT if difference <= sympy.Rational(facts["tolerance"]) * size else WRONG
    if difference > sympy.Rational(answer["step"]) * size / 2:
        return WRONG
    if answer["digits"] >= FEWEST_DIGITS or facts.get("rounded"):
        return RIGHT
    return "unsure", "The answer is rounded too far to tell."


def solutions(facts: dict[str, Any], answer: Any) -> Judged:
    """All solutions of an equation or a system, and nothing else."""
    names = [sympy.Symbol(name) for name in facts["unknowns"]]
    found = solved(facts, names)
    real = [each for each in found if all(part.is_real for part in each)]
    given = [tuple(side(each[name]) for name in facts["unknowns"]) for each in answer["sets"]]
    if answer["none"]:
        return WRONG if real else RIGHT
    if not real and all(part.is_real for each in given for part in each):
        return "wrong", "The equation has no real solution."
    wanted = found if any(not part.is_real for each in given for part in each) else real
    return compared(given, wanted)


def side(tree: Any) -> Any:
    """A value of an answer; `i` is the imaginary unit."""
    return rebuild(tree).subs(sympy.Symbol("i"), sympy.I)


def solved(facts: dict[str, Any], names: list[Any]) -> list[tuple[Any, ...]]:
    """The solutions in the order of the names.

    Raises:
        BoundsError: there is not a finite number of them.
    """
    equations = [rebuild(left) - rebuild(right) for left, right in facts["equations"]]
    found = sympy.solve(equations, names, dict=True)
    rows = [tuple(each.get(name, name) for name in names) for each in found]
    if any(part.free_symbols for row in rows for part in row):
        raise BoundsError("no finite number of solutions")
    if not rows and all(equation.is_zero for equation in equations):
        raise BoundsError("every number is a solution")
    return rows


def compared(given: list[tuple[Any, ...]], wanted: list[tuple[Any, ...]]) -> Judged:
    """Two sets of solutions."""
    hits = [[all(map(equal, one, other)) for other in wanted] for one in given]
    wrong = [one for one, row in zip(given, hits) if not any(row)]  # noqa: B905  (3.9 as well)
    if wrong:
        if all(close(one, wanted) for one in wrong):
            return ROUNDED
        return "wrong", "Put into the equations, the answer does not satisfy them."
    missing = [place for place in range(len(wanted)) if not any(row[place] for row in hits)]
    if missing or not given:
        return "wrong", "The answer does not give all solutions."
    return RIGHT


def close(one: tuple[Any, ...], wanted: list[tuple[Any, ...]]) -> bool:
    """Whether a solution is one of the wanted ones, rounded."""
    return any(
        all(abs(complex((a - b).evalf(20))) <= 5e-3 * (1 + abs(complex(b.evalf(20)))) for a, b in
            zip(one, other))  # noqa: B905
        and any(not b.is_Rational or b.q not in (1, 2, 4, 5, 10) for b in other)
        for other in wanted
    )  # fmt: skip


def factored(facts: dict[str, Any], answer: Any) -> Judged:
    """A product of factors that cannot be taken apart further."""
    wanted = rebuild(facts["target"])
    tree = product_of(answer)
    if not equal(rebuild(tree), wanted):
        return "wrong", "Multiplied out, the answer is not the given expression."
    for factor in factors(tree):
        expression = rebuild(factor)
        if not expression.free_symbols:
            continue
        found: Any = sympy.factor_list(expression)
        content, parts = found
        if len(parts) != 1 or parts[0][1] != 1 or abs(content) != 1:
            return "wrong", "The answer has the right value but can be factored further."
    return RIGHT


def product_of(tree: Any) -> Any:
    """The product that an answer is: the last side of an equation, a list of factors."""
    if tree[0] == "equation":
        sides = tree[2:]
        zero = sides[-1] == ["number", "0"] and len(sides) > 1
        return product_of(sides[-2] if zero else sides[-1])
    if tree[0] == "list":
        product = tree[2]
        for factor in tree[3:]:
            product = ["mul", "", product, factor]
        return product
    return tree


def factors(tree: Any) -> list[Any]:
    """The factors as they are written, powers taken apart."""
    tree = strip(tree)
    if tree[0] == "mul":
        return [factor for child in tree[2:] for factor in factors(child)]
    if tree[0] == "pow" and tree[3][0] == "number":
        return factors(tree[2])
    if tree[0] == "div" and not rebuild(tree[3]).free_symbols:
        return factors(tree[2])
    return [tree]


def balanced(facts: dict[str, Any], answer: Any) -> Judged:
    """Coefficients from the null space of the element matrix."""
    given = answer["coefficients"]
    if given is None:
        return "wrong", "The answer has other substances than the question."
    matrix = sympy.Matrix(facts["matrix"])
    space = matrix.nullspace()
    if len(space) != 1:
        raise BoundsError("no single way to balance")
    vector = space[0] / [part for part in space[0] if part != 0][0]
    scale = sympy.ilcm(*[part.q for part in vector])
    wanted = [int(part * scale) for part in vector]
    divisor = sympy.igcd(*wanted)
    wanted = [part // divisor for part in wanted]
    if any(part <= 0 for part in wanted):
        raise BoundsError("the substances cannot react like this")
    if given == wanted:
        return RIGHT
    if matrix * sympy.Matrix(given) == sympy.zeros(matrix.rows, 1):
        return "unsure", "The equation is balanced, but not with the smallest whole numbers."
    return "wrong", "Atoms of an element are not equal on both sides."


def ratio(facts: dict[str, Any], answer: Any) -> Judged:
    """Parts of a whole, up to a common factor."""
    wanted, given = facts["target"], answer["parts"]
    if len(wanted) != len(given) or not all(given):
        return WRONG
    if lowest(wanted) == lowest(given):
        return RIGHT
    if sorted(lowest(wanted)) == sorted(lowest(given)):
        return "unsure", "The parts are right, in another order."
    return WRONG


def lowest(parts: list[int]) -> list[int]:
    """The ratio in lowest terms."""
    divisor = int(sympy.igcd(*[0, *parts]))
    return [part // divisor for part in parts]


def clock(facts: dict[str, Any], answer: Any) -> Judged:
    """A time of day, and the day where the answer names one."""
    if answer["minutes"] != facts["minutes"]:
        return WRONG
    if answer["day"] is not None and answer["day"] != facts["day"]:
        return "wrong", "The time is right, the day is not."
    return RIGHT


JUDGES = {
    "value": value,
    "quantity": quantity,
    "solutions": solutions,
    "factored": factored,
    "balanced": balanced,
    "ratio": ratio,
    "clock": clock,
}
"""Name of a judge → the judge."""
