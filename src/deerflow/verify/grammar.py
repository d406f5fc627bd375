"""The grammar of formulas: text that nobody trusts becomes a small tree, or an error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from deerflow.errors import UsageError
from deerflow.verify.notation import broken, plain

LONGEST = 2_000
"""Characters of one formula."""
DEEPEST = 40
"""Brackets, signs and functions that may lie in one another."""
MOST_NODES = 400
MOST_DIGITS = 40
"""Digits of one number."""
LARGEST_EXPONENT = 1_000

Kind = Literal[
    "number", "name", "pi", "add", "mul", "div", "pow", "neg", "pm", "percent", "degree", "call",
    "equation", "list",
]  # fmt: skip
FUNCTIONS = (
    "arcsin", "arccos", "arctan", "sqrt", "sin", "cos", "tan", "cot", "sec", "csc", "abs", "exp",
    "log", "ln",
)  # fmt: skip
"""Names of functions; all else that is longer than three letters is no formula."""

_LOOSE = ("list", "equation")
"""Kinds that are no numbers."""
_AROUND = {"neg": ("-", ""), "percent": ("", "%"), "degree": ("", "°")}
_BETWEEN_PARTS = {"add": " + ", "mul": " * ", "div": " / ", "pow": " ^ ", "pm": " ± "}
_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]{1,3}(?:,[0-9]{3})+(?![0-9,])(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?|\.[0-9]+)"
    r"|(?P<name>[A-Za-zθαβλΔ]_?[0-9]{1,2}(?![0-9.]))|(?P<word>[A-Za-z]+|[θαβλΔ]|[或和])"
    r"|(?P<sign>[-+*/^=(),;%°±\[\]]))"
)
_BETWEEN = {",": ",", ";": ",", "and": ",", "和": ",", "or": "or", "或": "or"}
_CLOSING = {"(": ")", "[": "]"}


class AnswerError(UsageError):
    """A text is not a formula, or not one within the limits."""

    code = "bad_answer"


@dataclass(frozen=True, slots=True)
class Node:
    """Part of a formula.

    Attributes:
        kind: what it is.
        value: digits of a number, the name of a name or function, "or" for a list of alternatives.
        children: operands in their order.
    """

    kind: Kind
    value: str = ""
    children: tuple[Node, ...] = ()


def parse(text: str) -> Node:
    """The tree of a formula, an equation, or a list of them ("x = 2 or x = 3", "(4, 3)").

    Raises:
        AnswerError: it is none, or passes a limit.
    """
    if len(text) > LONGEST:
        raise AnswerError(f"The formula is longer than {LONGEST:,} characters.")
    if broken(text):
        raise AnswerError("The formula holds characters that no text holds.")
    reader = _Reader(list(_tokens(plain(text))))
    node = reader.statement(0)
    reader.end()
    return node


Json = list["str | Json"]


def to_json(node: Node) -> Json:
    """The tree as nested lists: [kind, value, child, ...]."""
    return [node.kind, node.value, *(to_json(child) for child in node.children)]


def show(node: Node) -> str:
    """Text that `parse` reads as the same tree."""
    parts = [show(child) for child in node.children]
    if node.kind in _AROUND:
        before, after = _AROUND[node.kind]
        return f"({before}{parts[0]}{after})"
    match node.kind:
        case "number" | "name" | "pi":
            return node.value or node.kind
        case "call":
            return f"{node.value}({parts[0]})"
        case "equation":
            return " = ".join(parts)
        case _:
            sign = _BETWEEN_PARTS.get(node.kind, " or " if node.value else ", ")
            return f"({sign.join(parts)})"


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it."""
    yield node
    for child in node.children:
        yield from walk(child)


def names(node: Node) -> set[str]:
    """The free names of a formula."""
    return {part.value for part in walk(node) if part.kind == "name"}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    spaced: bool


def _tokens(text: str) -> Iterator[_Token]:
    place = 0
    text = text.rstrip().rstrip(".")
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise AnswerError("This is not a formula.")
        kind = found.lastgroup or ""
        spaced = found.group()[:1].isspace()
        body = found.group(kind)
        if kind == "word":
            yield from _words(body, spaced)
        elif kind == "number" and len(body) > MOST_DIGITS:
            raise AnswerError(f"A number has more than {MOST_DIGITS} digits.")
        else:
            yield _Token(kind, body.replace("_", ""), spaced)
        place = found.end()


def _words(text: str, spaced: bool) -> Iterator[_Token]:
    """A word as tokens: a function, a joining word, or a product of single letters."""
    lower = text.lower()
    if lower in _BETWEEN:
        yield _Token("sign", lower, spaced)
    elif lower in FUNCTIONS:
        yield _Token("function", lower, spaced)
    elif text in ("pi", "Pi"):
        yield _Token("pi", "pi", spaced)
    elif len(text) <= 3:
        for letter in text:
            yield _Token("name", letter, spaced)
            spaced = False
    else:
        raise AnswerError("This is words, not a formula.")


class _Reader:
    """Recursive descent over the tokens of one formula."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._place = 0
        self._nodes = 0

    def end(self) -> None:
        if self._place < len(self._tokens):
            raise AnswerError("This is not a formula.")

    def _sign(self, signs: str | dict[str, str], ahead: int = 0) -> str:
        place = self._place + ahead
        if place < len(self._tokens):
            token = self._tokens[place]
            if token.kind == "sign" and token.text in signs:
                return token.text
        return ""

    def _is(self, *kinds: str, ahead: int = 0) -> bool:
        place = self._place + ahead
        return place < len(self._tokens) and self._tokens[place].kind in kinds

    def _next(self) -> _Token:
        if self._place >= len(self._tokens):
            raise AnswerError("The formula breaks off.")
        self._place += 1
        return self._tokens[self._place - 1]

    def _node(self, kind: Kind, value: str = "", *children: Node) -> Node:
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise AnswerError(f"The formula has more than {MOST_NODES} parts.")
        if kind not in _LOOSE and any(child.kind in _LOOSE for child in children):
            raise AnswerError("A list or an equation stands where a number belongs.")
        return Node(kind, value, children)

    def statement(self, depth: int) -> Node:
        if depth > DEEPEST:
            raise AnswerError("The formula is nested too deep.")
        items = [self._item(depth)]
        between = ""
        while sign := self._sign(_BETWEEN):
            self._place += 1
            if _BETWEEN[sign] == "," and self._sign(_BETWEEN):  # ", and"
                sign = self._next().text
            between = "or" if _BETWEEN[sign] == "or" else between
            items.append(self._item(depth))
        return items[0] if len(items) == 1 else self._node("list", between, *items)

    def _item(self, depth: int) -> Node:
        sides = [self._sum(depth)]
        while self._sign("="):
            self._place += 1
            sides.append(self._sum(depth))
        if len(sides) == 1:
            return sides[0]
        if any(side.kind == "equation" for side in sides):
            raise AnswerError("An equation stands where a number belongs.")
        return self._node("equation", "", *sides)

    def _sum(self, depth: int) -> Node:
        if self._sign("±"):
            self._place += 1
            return self._node("pm", "", self._node("number", "0"), self._term(depth))
        left = self._term(depth)
        while sign := self._sign("+-±"):
            self._place += 1
            right = self._term(depth)
            if sign == "±":
                left = self._node("pm", "", left, right)
            else:
                left = self._node("add", "", left, self._negated(sign, right))
        return left

    def _negated(self, sign: str, node: Node) -> Node:
        return self._node("neg", "", node) if sign == "-" else node

    def _term(self, depth: int) -> Node:
        left = self._unary(depth)
        while True:
            if sign := self._sign("*/"):
                self._place += 1
                left = self._node("mul" if sign == "*" else "div", "", left, self._unary(depth))
            elif self._is("name", "function", "pi") or self._sign("(["):
                left = self._node("mul", "", left, self._power(depth))
            else:
                return left

    def _unary(self, depth: int) -> Node:
        if depth > DEEPEST:
            raise AnswerError("The formula is nested too deep.")
        if sign := self._sign("+-"):
            self._place += 1
            return self._negated(sign, self._unary(depth + 1))
        return self._power(depth)

    def _power(self, depth: int) -> Node:
        below = self._after(self._atom(depth))
        if not self._sign("^"):
            return below
        self._place += 1
        above = self._exponent(depth)
        if self._sign("^") or any(part.kind == "pow" for part in walk(above)):
            raise AnswerError("An exponent has an exponent.")
        if any(_large(part) for part in walk(above)):
            raise AnswerError(f"An exponent is above {LARGEST_EXPONENT:,}.")
        return self._after(self._node("pow", "", below, above))

    def _exponent(self, depth: int) -> Node:
        if depth > DEEPEST:
            raise AnswerError("The formula is nested too deep.")
        if sign := self._sign("+-"):
            self._place += 1
            return self._negated(sign, self._exponent(depth + 1))
        return self._atom(depth)

    def _after(self, node: Node) -> Node:
        while sign := self._sign("%°"):
            self._place += 1
            node = self._node("percent" if sign == "%" else "degree", "", node)
        return node

    def _atom(self, depth: int) -> Node:
        token = self._next()
        match token.kind:
            case "number":
                return self._number(token)
            case "name":
                return self._node("name", token.text)
            case "pi":
                return self._node("pi")
            case "function":
                return self._call(token.text, depth + 1)
            case _:
                if token.text not in _CLOSING:
                    raise AnswerError("This is not a formula.")
                inner = self.statement(depth + 1)
                if self._next().text != _CLOSING[token.text]:
                    raise AnswerError("A bracket is not closed.")
                return inner

    def _number(self, token: _Token) -> Node:
        whole = self._node("number", token.text.replace(",", ""))
        if not self._mixed():
            return whole
        above, _, below = self._next(), self._next(), self._next()
        part = self._node(
            "div", "", self._node("number", above.text), self._node("number", below.text)
        )
        return self._node("add", "", whole, part)

    def _mixed(self) -> bool:
        """Whether `1 1/2` stands here: a whole number, then a fraction of whole numbers."""
        tokens = self._tokens[self._place - 1 : self._place + 3]
        shape = [token.kind for token in tokens] == ["number", "number", "sign", "number"]
        return (
            shape
            and tokens[1].spaced
            and tokens[2].text == "/"
            and all(tokens[index].text.isdecimal() for index in (0, 1, 3))
        )

    def _call(self, name: str, depth: int) -> Node:
        if depth > DEEPEST:
            raise AnswerError("The formula is nested too deep.")
        if self._sign("(["):
            return self._node("call", name, self._atom(depth))
        inner = self._power(depth)
        while name != "sqrt" and self._is("name", "pi"):
            inner = self._node("mul", "", inner, self._power(depth))
        return self._node("call", name, inner)


def _large(node: Node) -> bool:
    return node.kind == "number" and float(node.value) > LARGEST_EXPONENT
