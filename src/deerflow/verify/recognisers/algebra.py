"""Questions of school algebra: solve, factor, expand, simplify, evaluate."""

from __future__ import annotations

import re
from typing import Any

from deerflow.verify.facts import Check, Question
from deerflow.verify.grammar import Node, names, to_json, walk
from deerflow.verify.polynomials import Terms, expanded
from deerflow.verify.statements import runs

_SOLVE = re.compile(
    r"\bsolve|\bsolutions?\b|\broots?\b|\bfind\b|\bwhat\s+is\b|\bvalues?\s+of\b|\bthen\b|\bdetermine\b|\bsatisf"
    r"|=\s*\?|解|求|根|则|那么"
)
_OTHER_TASK = re.compile(
    r"\bgraph|\bslope|\bintercept|\bvert(?:ex|ices)|\bsketch|\bderivative|\bintegra|\bcircle|\btriangle|\bprove|\barea"
    r"|\bdomain|\brange|\binverse|斜率|顶点|图象|图像|导数|积分|面积|证明|对称轴|截距"
)
_DISCRIMINANT = re.compile(r"\bdiscriminant\b|判别式")
_FACTOR = re.compile(r"\bfactor(?:i[sz]e|ed|ing|s|i[sz]ation)?\b|因式分解|分解因式")
_EXPAND = re.compile(
    r"\bexpand|\bmultiply\s+out|\bremove\s+(?:the\s+)?(?:brackets|parentheses)|展开|去括号"
)
_SIMPLIFY = re.compile(r"\bsimplif|\bcombine\s+like\s+terms|化简|合并同类项")
_SUM = re.compile(
    r"\bsum\s+of\s+(?:the\s+|its\s+|all\s+)?(?:two\s+)?(?:real\s+)?(?:roots|solutions)|(?:两个?|两实)?根(?:的|之)和|x1\s*\+\s*x2"
)
_PRODUCT = re.compile(
    r"\bproduct\s+of\s+(?:the\s+|its\s+|all\s+)?(?:two\s+)?(?:real\s+)?(?:roots|solutions)|(?:两个?|两实)?根(?:的|之)积|x1\s*\*?\s*x2(?!\s*=)"
)
_COUNT = re.compile(
    r"\bhow\s+many\s+(?:distinct\s+|different\s+)?(?:real\s+)?(?:roots|solutions)|\bnumber\s+of\s+(?:distinct\s+)?(?:real\s+)?(?:roots|solutions)|(?:实数)?[根解]的个数|几个(?:不同的)?(?:实数)?[根解]"
)
_WHEN = re.compile(r"\bwhen\b|\bif\b|\bfor\b|\bat\b|\bgiven\b|\bwith\b|当|若|已知")


def _formulas(question: Question) -> list[Node]:
    """The formulas of the question, lists taken apart."""
    found: list[Node] = []
    for run in runs(question.text):
        found += run.node.children if run.node.kind == "list" else (run.node,)
    return found


def _equations(question: Question) -> list[Node]:
    return [
        node
        for node in _formulas(question)
        if node.kind == "equation" and len(node.children) == 2 and names(node)
    ]


def _sides(equation: Node) -> list[Any]:
    return [to_json(side) for side in equation.children]


def _difference(equation: Node) -> Terms | None:
    left, right = equation.children
    return expanded(Node("add", "", (left, Node("neg", "", (right,)))))


def _degree(terms: Terms | None) -> int:
    return max((sum(p for _, p in key) for key in terms), default=0) if terms is not None else -1


def _expressions(question: Question) -> list[Node]:
    """Formulas with names and operations that are no equations."""
    return [
        node
        for node in _formulas(question)
        if node.kind not in ("equation", "list", "name", "number") and names(node)
    ]


def linear_system(question: Question) -> Check | None:
    """Two or three linear equations in as many unknowns: all of them, or an expression in them."""
    equations = _equations(question)
    unknowns = sorted(set[str]().union(*(names(each) for each in equations)))
    if not 2 <= len(equations) == len(unknowns) <= 3 or not _SOLVE.search(question.lower):
        return None
    if any(_degree(_difference(each)) != 1 for each in equations) or _other(question):
        return None
    facts: dict[str, Any] = {"equations": [_sides(each) for each in equations]}
    asked = _asked(question, unknowns)
    if asked is not None:
        return Check("linear_system", "value", {**_solved(equations, unknowns, asked)}) if (
            _solved(equations, unknowns, asked)) else None  # fmt: skip
    facts["unknowns"] = unknowns
    return Check("linear_system", "solutions", facts, frozenset(unknowns))


def _asked(question: Question, unknowns: list[str]) -> Node | None:
    """The one unknown or expression that a question about a system asks for; None for all."""
    found = re.search(
        r"(?:\bfind|\bwhat\s+is|\bvalue\s+of|\bthen|求|则)\s+(?:the\s+value\s+of\s+)?([^?.;]{1,40}?)\s*(?:=\s*\?|=?\s*\?|的值|[.?]|$)",
        question.text,
        re.IGNORECASE,
    )
    if found is None:
        return None
    wanted = [run.node for run in runs(found[1], frozenset(unknowns))]
    if len(wanted) != 1 or wanted[0].kind in ("list", "equation") or not names(wanted[0]):
        return None
    return wanted[0] if names(wanted[0]) <= set(unknowns) else None


def _solved(equations: list[Node], unknowns: list[str], asked: Node) -> dict[str, Any]:
    return {
        "system": [_sides(each) for each in equations],
        "unknowns": unknowns,
        "target": to_json(asked),
        "form": "plain",
    }


def _other(question: Question) -> bool:
    return _OTHER_TASK.search(question.lower) is not None


def _single(question: Question) -> tuple[Node, str] | None:
    """The one equation of a question and its one unknown."""
    equations = _equations(question)
    if len(equations) != 1 or len(names(equations[0])) != 1 or _other(question):
        return None
    return equations[0], min(names(equations[0]))


def measured_roots(question: Question) -> Check | None:
    """Discriminant, sum, product or number of the roots of a polynomial equation."""
    measure = next(
        (
            name
            for pattern, name in (
                (_DISCRIMINANT, "discriminant"),
                (_COUNT, "root_count"),
                (_SUM, "root_sum"),
                (_PRODUCT, "root_product"),
            )
            if pattern.search(question.lower)
        ),
        None,
    )
    if measure is None or _other(question):
        return None
    single = _single(question)
    if single is not None:
        left, right = single[0].children
        unknown = single[1]
    else:
        found = _expressions(question)
        if len(found) != 1 or len(names(found[0])) != 1 or _equations(question):
            return None
        left, right, unknown = found[0], Node("number", "0"), min(names(found[0]))
    degree = _degree(expanded(Node("add", "", (left, Node("neg", "", (right,))))))
    if not 1 <= degree <= 6 or (measure == "discriminant" and degree < 2):
        return None
    facts = {
        "measure": measure,
        "left": to_json(left),
        "right": to_json(right),
        "unknown": unknown,
        "form": "plain",
    }
    return Check(measure, "value", facts)


def equation(question: Question) -> Check | None:
    """One polynomial equation in one unknown: all its solutions."""
    single = _single(question)
    if single is None or not _SOLVE.search(question.lower) or _expressions(question):
        return None
    degree = _degree(_difference(single[0]))
    if not 1 <= degree <= 4 and not _rational(single[0]):
        return None
    if single[0].children[0].kind == "name" and not names(single[0].children[1]):
        return None
    kind = {1: "linear_equation", 2: "quadratic_roots"}.get(degree, "equation")
    facts = {"equations": [_sides(single[0])], "unknowns": [single[1]]}
    return Check(kind, "solutions", facts, frozenset(single[1]))


def _rational(node: Node) -> bool:
    """Whether a formula has nothing but the four operations and small whole powers."""
    allowed = {"number", "name", "add", "mul", "div", "neg", "equation"}
    return all(part.kind in allowed for part in walk(node))


def factoring(question: Question) -> Check | None:
    """A polynomial that is to be written as a product."""
    if not _FACTOR.search(question.lower) or _equations(question):
        return None
    found = [node for node in _expressions(question) if node.kind in ("add", "mul", "neg")]
    if len(found) != 1 or _degree(expanded(found[0])) < 1:
        return None
    facts = {"target": to_json(found[0]), "named": True}
    return Check("factoring", "factored", facts, frozenset(names(found[0])))


def rewriting(question: Question) -> Check | None:
    """An expression that is to be expanded or simplified."""
    expand, simplify = _EXPAND.search(question.lower), _SIMPLIFY.search(question.lower)
    if not (expand or simplify) or _equations(question) or _FACTOR.search(question.lower):
        return None
    found = _expressions(question)
    if len(found) != 1:
        return None
    letters = frozenset(names(found[0]))
    kind = "expansion" if expand else "simplification"
    terms = expanded(found[0])
    facts = {
        "target": to_json(found[0]),
        "form": "expanded" if expand else "simplified",
        "named": terms is None or any(terms),
    }
    return Check(kind, "value", facts, letters)


def substitution(question: Question) -> Check | None:
    """An expression at given values of its names."""
    if not _WHEN.search(question.lower) or _other(question):
        return None
    given: dict[str, Node] = {}
    for node in _equations(question):
        first, last = node.children
        if first.kind != "name" or names(last) or first.value in given:
            return None
        given[first.value] = last
    found = _expressions(question)
    if len(found) != 1 or not given or names(found[0]) != set(given):
        return None
    facts = {"target": to_json(_replaced(found[0], given)), "form": "plain"}
    return Check("evaluation", "value", facts)


def _replaced(node: Node, given: dict[str, Node]) -> Node:
    if node.kind == "name":
        return given[node.value]
    return Node(node.kind, node.value, tuple(_replaced(child, given) for child in node.children))
