"""Answers as they are written: the letter that one declares, and whether two say the same."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from fractions import Fraction

from deerflow.verify.grammar import AnswerError, Node, names, parse, show, to_json
from deerflow.verify.messages import Problem
from deerflow.verify.notation import MOST_TEXT, blanks, broken, plain
from deerflow.verify.polynomials import expanded
from deerflow.verify.reactions import chemical, reactions
from deerflow.verify.statements import Meant, meant, runs
from deerflow.verify.units import quantities

__all__ = ["AnswerError", "Node", "agree", "declared_letter", "parse", "show", "to_json"]

_L = r"(?P<letter>[A-Z])(?![A-Za-z0-9'])"
_WRAP = r"[\s*_\"'(\[{<]*"
_OPENERS = (
    rf"(?:\b(?:answers?|choice|option|选项|response)\b|答案|答)\s*(?:\b(?:to|for)\s+[^.:\n]{{1,40}}?)?"
    rf"\s*(?:(?:should|must|would)\s+be|(?:is|are|was|:|=|应该?[是选为]|[是为选])|\s)*(?:option|choice|选项)?{_WRAP}{_L}",
    rf"(?:选择|应选|故选|选|choose|pick|select|go\s+with)\s*[:是]?\s*(?:option|choice|answer|选项)?{_WRAP}{_L}",
    rf"^{_WRAP}{_L}[\s*_\"')\]}}>.:,]*(?=$|\n)",
    rf"\bboxed\s*\{{\s*(?:\\text\s*\{{)?{_WRAP}{_L}",
    rf"\*\*\s*\(?{_L}[).:]?[^*\n]{{0,200}}\*\*",
    rf"(?:\bso|\btherefore|\bthus|\bhence|因此|所以|故)[\s,:]*(?:it\s+is\s+|it's\s+|the\s+answer\s+is\s+|选)?{_WRAP}{_L}(?=[\s.)*\]]*(?:$|\n))",
    rf"\(\s*{_L}\s*\)",
    rf"\b{_L}\s+is\s+(?:the\s+)?(?:correct|right|best)\b",
    rf"{_L}\s*(?:是正确的?|正确|项正确)",
    rf"\b(?:no|wait|correction|actually|rather)\b[\s,:.]*(?:(?:it\s+is|it's|the\s+answer\s+is)\s+)?"
    rf"{_WRAP}{_L}(?=[\s.)*\]]*(?:$|\n|[,;]))",
)
_DECLARED = [re.compile(opener, re.IGNORECASE | re.MULTILINE) for opener in _OPENERS]
_FIRST = re.compile(rf"^{_WRAP}{_L}\s*[.:)\]、]\s*\S", re.MULTILINE)
_DENIED = re.compile(
    r"(?:\b(?:not|never|isn't|cannot|can't|neither|nor|wrong|incorrect|false)\b|n't|不是|不选|并非|不应|排除)[^.;,\n]{0,12}$",
    re.IGNORECASE,
)
_DENIED_AFTER = re.compile(
    r"^[\s*)\]]*(?:is|are|was|isn't|项)?\s*(?:\b(?:not|wrong|incorrect|false)\b|n't|错|不对|不正确|不是)",
    re.IGNORECASE,
)
_ARTICLES = {"a", "an", "the"}
_SMALL = frozenset("a an as at be by he if in is it no of on or so to we".split())
_WORD = re.compile(
    r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?|\.[0-9]+|[^\W\d_]+"
    r"|[^\w\s.,;:!?'\"`，。；：！？、“”‘’]"
)
_JOINED = re.compile(r"[\s*)\]]*(?:and|or|或|和|与|及|/|、|&)[\s*(\[]*[A-Z](?![A-Za-z])")
_JOINED_BEFORE = re.compile(r"(?<![A-Za-z])[A-Z][\s*)\]]*(?:and|or|或|和|与|及|/|、|&)[\s*(\[]*$")


_TAKEN_BACK = re.compile(
    r"\b(?:not|never|cannot|neither|nor|wrong|incorrect|false|no|wait|actually|instead|correction)\b"
    r"|n['’]t\b|≠|!=|不是|并非|不等于|不对|错|更正",
    re.IGNORECASE,
)
_NONE = re.compile(
    r"\s*(?:(?:i\s+(?:do\s+not|don['’]t)|not)\s+know|unknown\b|n/a\b|none[\s.!]*$|sorry\b"
    r"|(?:it\s+|i\s+|this\s+)?(?:cannot|can['’]t)\s+(?:be\s+)?(?:answer|determine|say|help|tell)"
    r"|i(?:\s+am|['’]m)\s+(?:not\s+able|unable|sorry)|no\s+answer|不知道|无法(?:确定|回答)|未知)"
    r"|[\W_]*$",
    re.IGNORECASE,
)
"""Texts that answer nothing: two of them are no agreement."""
_BOUNDS = re.compile(
    r"[<>≤≥≦≧±]|[0-9)]!|\b(?:at least|at most|more than|less than|north|south|east|west|up|down"
    r"|left|right|forwards?|backwards?|bce?|ad|ce|dozen|hundred|thousand|million|billion)\b"
    r"|大于|小于|至少|至多|公元前|[东南西北上下左右万亿]",
    re.IGNORECASE,
)
_PAIR = re.compile(r"[(\[]\s*[-+]?[0-9.]+\s*,\s*[-+]?[0-9.]+\s*[)\]]")
_PLAIN = frozenset(" .,;:!?()'\"*_`-+/^=<>%°·×÷…→\\{}$&#~，。；：！？（）、“”‘’—–−⋅")
"""Signs of sentences, of mark-up, and those that arithmetic reads."""
_FORM = re.compile(
    r"\bfactor|\bexpand|\bmultiply out|\bsimplify|因式分解|分解因式|展开|化简", re.IGNORECASE
)
_FACTORS = re.compile(r"[)）]\s*[*·×⋅]?\s*(?:[(（]|\^|²|³)")


def declared_letter(text: str) -> str | None:
    """The letter of an option that a text declares last, in upper case; None when it declares none.

    "Answer: D", "the answer is B", "(C)", "**B**", "答案是B", "选B" and a letter alone declare,
    in full width too. "not A" does not, nor does a letter inside a sentence.
    """
    if len(text) > MOST_TEXT or broken(text):
        return None
    text = unicodedata.normalize("NFKC", blanks(text)).translate(
        str.maketrans({"：": ":", "（": "("})
    )
    alone = text.strip().strip("*_()[]{}.:\"'$ ")
    if len(alone) == 1 and "A" <= alone.upper() <= "Z":
        return alone.upper()
    found = [match for opener in _DECLARED for match in opener.finditer(text) if _real(text, match)]
    if found:
        last = max(found, key=lambda match: match.start("letter"))
        before, after = text[: last.start("letter")], text[last.end("letter") :]
        several = _JOINED.match(after) or _JOINED_BEFORE.search(before[-40:])
        return None if several else last["letter"].upper()
    first = _FIRST.match(text)
    return first["letter"].upper() if first and first["letter"].isupper() else None


def _real(text: str, match: re.Match[str]) -> bool:
    """Whether a found letter is one that is declared: no article, no denial."""
    place, letter = match.start("letter"), match["letter"]
    before, after = text[max(0, place - 30) : place], text[match.end("letter") :][:30]
    if letter in "aAI" and re.match(r"\s+[a-z]", after) and not _DENIED_AFTER.match(after):
        return bool(re.match(r"\s+(?:is|because|since|as|for|and)\b", after)) and letter != "a"
    if letter.islower() and re.match(r"\s+[a-z]", after):
        return False
    return not _DENIED.search(before) and not _DENIED_AFTER.match(after)


def answers_nothing(text: str) -> bool:
    """Whether a text only says that there is no answer, or nothing at all."""
    return _NONE.match(text) is not None


def agree(problem: Problem, one: str, other: str) -> bool:
    """Whether two answers to a problem say the same; decided by rules alone, never raises.

    Letters are compared as declared (an option's text counts as its letter); numbers, quantities,
    formulas and equations by value; all else by its words. Answers of which one alone denies, takes
    back or bounds something do not agree, nor do a product and a sum where the form is asked for,
    and what answers nothing agrees with nothing.
    """
    if any(answers_nothing(text) or _stray(problem, text) for text in (one, other)):
        return False
    if one == other:
        return True
    if problem.kind == "letter":
        first, second = _letter(problem, one), _letter(problem, other)
        if first is not None or second is not None:
            return first == second
    if _reserved(one) != _reserved(other):
        return False
    if _words(one) == _words(other):
        return bool(_words(one))
    if _FORM.search(problem.text) and bool(_FACTORS.search(one)) != bool(_FACTORS.search(other)):
        return False
    first, second = _said(one), _said(other)
    if first is None or second is None or first.value != second.value:
        return False
    return first.bare or second.bare


def _reserved(text: str) -> tuple[bool, frozenset[str]]:
    """Whether a text denies or takes something back, and what bounds, places or sizes its value.

    That are signs that no arithmetic here knows, pairs with their brackets and order, directions,
    eras and large units: an answer with another one of them is another answer.
    """
    open_text = plain(text).replace("->", "→").replace("=>", "→")
    held = {found.casefold() for found in _BOUNDS.findall(open_text)}
    held |= {"".join(found.split()) for found in _PAIR.findall(open_text)}
    held |= {sign for sign in open_text if unicodedata.category(sign)[0] in "SP"} - _PLAIN
    return bool(_TAKEN_BACK.search(text)), frozenset(held)


@dataclass(frozen=True, slots=True)
class _Said:
    """The result that a text gives, and whether it is all that the text says."""

    value: object
    bare: bool


def _stray(problem: Problem, text: str) -> bool:
    """Whether a text declares a letter that is no option."""
    known = {option.strip()[:1] for option in problem.options}
    letter = declared_letter(text)
    return problem.kind == "letter" and bool(known) and letter not in (None, *known)


def _letter(problem: Problem, text: str) -> str | None:
    letter = declared_letter(text)
    if letter is not None:
        return letter
    words = _words(text)
    for option in problem.options:
        found = re.match(r"\s*([A-Z])[.:)、]?\s+(.*)", option, re.DOTALL)
        if found is not None and words and _words(found[2]) == words:
            return found[1]
    return None


def _words(text: str) -> tuple[str, ...]:
    """Words and signs that carry meaning, in one form; short words keep their case (Co and CO)."""
    if broken(text) or len(text) > MOST_TEXT:
        return (text,)
    words = _WORD.findall(plain(text).strip().rstrip(".!"))
    folded = [w.casefold() if len(w) > 2 or w.casefold() in _SMALL else w for w in words]
    return tuple(word.replace(",", "") for word in folded if word not in _ARTICLES)


def _said(text: str) -> _Said | None:
    """What a text says as an equation of chemistry, a quantity or a formula; None for words."""
    try:
        result = meant(text)
    except AnswerError:
        return None
    found = reactions(chemical(result.text))
    if found:
        last = found[0 if result.declared else -1]
        sides = [frozenset((each.atoms, each.coefficient) for each in side)
                 for side in (last.left, last.right)]  # fmt: skip
        return _Said(tuple(sides), bare=True)
    sized = [each for each in quantities(result.text) if each.unit is not None]
    if len(sized) == 1:
        bare = _bare(result, sized[0].end - sized[0].start)
        return _Said((sized[0].size, sized[0].unit.dims if sized[0].unit else ()), bare)
    formulas = [run for run in runs(result.text) if run.node.kind != "name"]
    if sized or not formulas:
        return None
    last_run = formulas[0 if result.declared else -1]
    return _Said(_value(last_run.node), _bare(result, last_run.end - last_run.start))


def _bare(result: Meant, length: int) -> bool:
    """Whether a text is hardly more than its result."""
    return result.declared or length * 2 >= len(result.text.strip())


def _value(node: Node, *, bare: bool = True) -> object:
    """One form for equal formulas, as far as rational arithmetic goes.

    With `bare`, "x = 12" is 12.
    """
    if node.kind == "list":
        about = {child.children[0].value for child in node.children if child.kind == "equation"}
        return ("list", frozenset(_value(child, bare=len(about) < 2) for child in node.children))
    if node.kind == "equation":
        first, last = node.children[0], node.children[-1]
        if first.kind == "name":
            value = _value(last)
            alone = bare and not names(last) and isinstance(value, Fraction)
            return value if alone else (first.value, value)
        return ("equation", tuple(_value(child) for child in node.children))
    terms = expanded(node)
    if terms is None:
        return to_text(node)
    if not terms or set(terms) == {()}:
        return terms.get((), Fraction(0))
    return frozenset(terms.items())


def to_text(node: Node) -> str:
    """A formula's text, for those that no arithmetic here knows."""
    return show(node)
