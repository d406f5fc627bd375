"""What an answer says, read for the judge that will judge it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from deerflow.verify.facts import Check, JudgeName, Reading
from deerflow.verify.grammar import AnswerError, Json, Node, names, to_json
from deerflow.verify.reactions import Reaction, chemical, reactions
from deerflow.verify.statements import Meant, Run, meant, runs
from deerflow.verify.times import times
from deerflow.verify.units import Quantity, quantities

MOST_CANDIDATES = 8

_REMARK = re.compile(
    r"\(\s*(?:since|because|as|check|i\.e|from|using|by|where)\b[^()]*(?:\([^()]*\)[^()]*)*\)"
    r"|[,.;]?\s*\b(?:since|because|where|check|verify|verification|check(?:ing)?)\b[\s\S]*$|(?:因为|检验|验证)[\s\S]*$",
    re.IGNORECASE,
)
_THEREFORE = re.compile(
    r"\b(?:so|therefore|thus|hence|finally|giving|gives)\b|因此|所以|故|得到?(?!分)", re.IGNORECASE
)
_SENTENCE = re.compile(r"(?<![0-9])\.\s|\.\s+(?=[A-Z一-鿿])|\n")
_NONE = re.compile(
    r"\bno\s+(?:real\s+)?(?:solutions?|roots?)|no\s+real|does\s+not\s+have|无实?数?[解根]|没有实?数?[解根]",
    re.IGNORECASE,
)
_TEMPERATURE = re.compile(r"\s*°\s*[CFK]\b")
_LISTED = re.compile(r"[^0-9]*[0-9]{1,3}(?:\s*(?:,\s*and\b|,|:|;|\band\b)\s*[0-9]{1,3})+[^0-9]*")
_GAP = re.compile(r"[\s,;.]*(?:and|or|[或和])?[\s,;]*")
_NEGATED = re.compile(r"(?:\bnot|n't|\bnever|不是|不等于|≠)\s*(?:=|be)?\s*$", re.IGNORECASE)


def read(check: Check, text: str) -> Reading:
    """What an answer says.

    Raises:
        AnswerError: nothing that can be judged.
    """
    return READERS[check.judge](check, text)


def _parts(said: Meant) -> Iterator[str]:
    """Parts of a text in which its result may stand, the likeliest first."""
    text = _REMARK.sub("", said.text)
    text = text if re.search(r"[0-9A-Za-z]", text) else said.text
    sentences = [part for part in _SENTENCE.split(text) if part.strip()]
    if said.declared:
        yield from sentences
        return
    last = [found.end() for found in _THEREFORE.finditer(text)]
    if last:
        yield from (part for part in _SENTENCE.split(text[last[-1] :]) if part.strip())
    yield from reversed(sentences)


def _reading(said: Meant, main: Json, others: list[Json]) -> Reading:
    rest = [other for other in others if other != main]
    unique = [other for place, other in enumerate(rest) if other not in rest[:place]]
    return Reading([main, *unique[: MOST_CANDIDATES - 1]], said.declared, said.hedged)


def _values(check: Check, text: str) -> Reading:
    said = meant(text)
    said = replace(said, text=_TEMPERATURE.sub("", said.text))
    good = _wanted(check)
    main: Node | None = None
    for part in _parts(said):
        found = [run for run in runs(part, check.letters) if good(run)]
        if found:
            main = found[-1].node
            break
    if main is None:
        raise AnswerError("The answer names no result that can be checked.")
    others = [to_json(run.node) for run in reversed(runs(said.text, check.letters)) if good(run)]
    return _reading(said, to_json(main), others)


def _wanted(check: Check) -> Callable[[Run], bool]:
    """Whether a formula can be an answer: it has the names that the question has, or numbers."""
    needed = bool(check.facts.get("named"))

    def good(run: Run) -> bool:
        node = run.node
        if node.kind == "pm" or any(child.kind == "pm" for child in node.children):
            return False
        if needed:
            return bool(names(node)) and (node.kind != "name" or check.judge != "factored")
        return node.kind != "name" and _closed(node)

    return good


def _closed(node: Node) -> bool:
    last = node.children[-1] if node.kind == "equation" else node
    return not names(last)


def _solutions(check: Check, text: str) -> Reading:
    unknowns: list[str] = check.facts["unknowns"]
    said = meant(text)
    body = _REMARK.sub("", said.text)
    body = body if re.search(r"[0-9]", body) or _NONE.search(body) else said.text
    if _NONE.search(body):
        return Reading([{"none": True, "sets": []}], declared=True)
    letters = frozenset({*unknowns, "i"})
    found = runs(body, letters)
    if len(unknowns) == 1:
        return _one_unknown(unknowns[0], body, found, said)
    sets = _tuples(unknowns, found) or _assigned(unknowns, found)
    if not sets:
        everywhere = runs(meant_everywhere(text), letters)
        sets = _assigned(unknowns, everywhere)
    if not sets:
        raise AnswerError("The answer gives no value for an unknown.")
    complete = [each for each in sets if set(each) == set(unknowns)]
    return Reading([{"none": False, "sets": complete}], declared=True)


def meant_everywhere(text: str) -> str:
    """The whole text, as `meant` gives a part of it."""
    return meant(re.sub(r"\banswers?\b|答案|答", " ", text, flags=re.IGNORECASE)).text


def _one_unknown(unknown: str, body: str, found: list[Run], said: Meant) -> Reading:
    groups: list[list[Node]] = []
    end = -1
    for run in found:
        values = _assignments(unknown, run.node)
        if not values:
            continue
        if groups and end >= 0 and _GAP.fullmatch(body[end : run.start]):
            groups[-1] += values
        else:
            groups.append(values)
        end = run.end
    if not groups:
        bare = [run for run in found if _closed(run.node)]
        if not bare:
            raise AnswerError("The answer gives no value for the unknown.")
        groups = [_members(bare[0 if said.declared else -1].node)]
    union = [value for group in groups for value in group]
    candidates = [
        {"none": False, "sets": [{unknown: to_json(value)} for value in group]}
        for group in (groups[-1], union)
    ]
    return Reading(candidates, said.declared, union=True)


def _assignments(unknown: str, node: Node) -> list[Node]:
    """Values that a formula gives to the unknown: x = 2, x1 = 2, x = 2 or 3, x = 1 ± 2."""
    if node.kind == "list":
        values: list[Node] = []
        for child in node.children:
            given = _assignments(unknown, child)
            if not given and values and not names(child) and child.kind not in ("equation", "list"):
                given = _signs(child)
            values += given
        return values
    if node.kind != "equation":
        return []
    first, last = node.children[0], node.children[-1]
    if first.kind != "name" or not re.fullmatch(rf"{re.escape(unknown)}[0-9]?", first.value):
        return []
    if names(last) - {"i"} or last.kind in ("list", "equation"):
        return []
    return _signs(last)


def _signs(node: Node) -> list[Node]:
    """Both values of a formula with a ±."""
    if node.kind == "pm":
        one, other = node.children
        return [Node("add", "", (one, other)), Node("add", "", (one, Node("neg", "", (other,))))]
    for place, child in enumerate(node.children):
        both = _signs(child)
        if len(both) == 2:
            return [
                Node(
                    node.kind,
                    node.value,
                    (*node.children[:place], one, *node.children[place + 1 :]),
                )
                for one in both
            ]
    return [node]


def _members(node: Node) -> list[Node]:
    parts = node.children if node.kind == "list" else (node,)
    return [
        value
        for part in parts
        for value in _signs(part.children[-1] if part.kind == "equation" else part)
    ]


def _assigned(unknowns: list[str], found: list[Run]) -> list[dict[str, Json]]:
    """The last value of each unknown of a system."""
    given: dict[str, Json] = {}
    for run in found:
        for unknown in unknowns:
            values = _assignments(unknown, _only(unknown, run.node))
            if len(values) == 1:
                given[unknown] = to_json(values[0])
    return [given] if given else []


def _only(unknown: str, node: Node) -> Node:
    """The equations of a list that are about an unknown."""
    if node.kind != "list":
        return node
    about = tuple(
        child
        for child in node.children
        if child.kind == "equation" and child.children[0].value == unknown
    )
    return Node("list", "", about[-1:])


def _tuples(unknowns: list[str], found: list[Run]) -> list[dict[str, Json]]:
    """(4, 3), or (x, y) = (4, 3): values in the order of the unknowns."""
    for run in reversed(found):
        node = run.node.children[-1] if run.node.kind == "equation" else run.node
        plain = node.kind == "list" and not any(names(child) for child in node.children)
        if plain and len(node.children) == len(unknowns):
            return [dict(zip(unknowns, map(to_json, node.children), strict=True))]
    return []


def _quantities(check: Check, text: str) -> Reading:
    said = meant(text)
    wanted = check.facts["dims"]
    main: Quantity | None = None
    for part in _parts(said):
        found = _sized(part)
        fitting = [each for each in found if each.unit and _dims(each) == wanted]
        with_unit = [each for each in found if each.unit]
        if found:
            main = (fitting or with_unit or found)[-1]
            break
    if main is None:
        raise AnswerError("The answer names no quantity that can be checked.")
    fitting = [each for each in reversed(_sized(said.text)) if each.unit and _dims(each) == wanted]
    return _reading(said, _quantity(main), [_quantity(each) for each in fitting])


def _sized(text: str) -> list[Quantity]:
    return [
        each
        for each in quantities(text)
        if not _NEGATED.search(text[max(0, each.start - 30) : each.start])
    ]


def _dims(each: Quantity) -> list[list[Any]]:
    return [list(part) for part in each.unit.dims] if each.unit else []


def _quantity(each: Quantity) -> Any:
    digits = re.split(r"[*x]", each.number.replace(" ", ""))[0].lstrip("+-")
    _, _, after = digits.replace(",", "").partition(".")
    step = (
        Fraction(0)
        if "/" in digits
        else abs(each.value) and _scale(each, digits) / 10 ** len(after)
    )
    return {
        "number": number(each.value),
        "size": str(each.unit.size) if each.unit else None,
        "dims": _dims(each) if each.unit else None,
        "digits": len(re.sub(r"[^0-9]", "", digits).lstrip("0")),
        "step": str(step),
    }


def _scale(each: Quantity, digits: str) -> Fraction:
    """The power of ten behind the digits."""
    written = Fraction(digits.replace(",", ""))
    return abs(each.value) / written if written else Fraction(1)


def number(value: Fraction) -> Json:
    """A rational number as a tree."""
    tree: Json = ["number", str(abs(value))]
    return ["neg", "", tree] if value < 0 else tree


def _reactions(check: Check, text: str) -> Reading:
    said = meant(text)
    found = reactions(chemical(said.text))
    if found:
        chosen = found[0 if said.declared else -1]
        others = [{"coefficients": _aligned(check, each)} for each in found if each is not chosen]
        main: Any = {"coefficients": _aligned(check, chosen)}
        return Reading([main, *others[:MOST_CANDIDATES]], said.declared, said.hedged)
    for part in _parts(said):
        digits = re.findall(r"[0-9]{1,3}", part)
        if len(digits) == len(check.facts["formulas"]) and _LISTED.fullmatch(part):
            return Reading([{"coefficients": [int(each) for each in digits]}], declared=True)
    raise AnswerError("The answer holds no chemical equation.")


def _aligned(check: Check, reaction: Reaction) -> list[int] | None:
    """Coefficients in the order of the question's substances; None where those differ."""
    left: int = check.facts["left"]
    wanted: list[Any] = check.facts["formulas"]
    if (len(reaction.left), len(reaction.right)) != (left, len(wanted) - left):
        return None
    given = {
        (side, each.atoms): each.coefficient
        for side, species in enumerate((reaction.left, reaction.right))
        for each in species
    }
    keys = [
        (int(place >= left), tuple((str(name), int(count)) for name, count in atoms))
        for place, atoms in enumerate(wanted)
    ]
    return [given[key] for key in keys] if all(key in given for key in keys) else None


def _ratios(check: Check, text: str) -> Reading:
    said = meant(text)
    parts: list[Any] = [
        {"parts": [int(each) for each in re.findall(r"[0-9]{1,6}", found.group())]}
        for found in re.finditer(r"[0-9]{1,6}(?:\s*(?::|比|\bto\b)\s*[0-9]{1,6})+", said.text)
    ]
    if not parts:
        raise AnswerError("The answer holds no ratio.")
    main = parts[0 if said.declared else -1]
    return _reading(said, main, list(reversed(parts)))


def _clocks(check: Check, text: str) -> Reading:
    said = meant(text)
    found: list[Any] = [{"minutes": each.minutes, "day": each.day} for each in times(said.text)]
    if not found:
        raise AnswerError("The answer names no time of day.")
    main = found[0 if said.declared else -1]
    return _reading(said, main, list(reversed(found)))


READERS: Mapping[JudgeName, Callable[[Check, str], Reading]] = {
    "value": _values,
    "factored": _values,
    "solutions": _solutions,
    "quantity": _quantities,
    "balanced": _reactions,
    "ratio": _ratios,
    "clock": _clocks,
}
"""Judge → how answers are read for it."""
