"""What a response claims as its answer, and whether that is the key in another form.

A comparison of values alone would take "x^2 - 5x + 6" for its own factorisation, "3 + 4" for its
sum and "x = 3, y = 4" for "x = 4, y = 3": what the question gives, and which name has which value,
count too.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence

Same = Callable[[str, str], bool]
"""Whether two texts have the same value."""

_DECLARED = re.compile(
    r"\b(?:final\s+)?(?:answer|result|solution)\s*(?:is|are|=|:)\s*|答案\s*(?:是|为|：|:)\s*",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?;。！？；])\s+|\n+|(?<=[。！？；])")
_LINKED = re.compile(
    r"^(?:(?:so|thus|hence|therefore|then|and|we get|no|wait|actually|sorry|correction)\b[,:\s]*"
    r"|(?:所以|因此|更正)[，,：:\s]*)+",
    re.IGNORECASE,
)
_IS = re.compile(r"\bis\s+|(?<![!<>≠=])=(?!=)|是|为")
_DENIED = re.compile(
    r"\b(?:not|never|cannot|neither|wrong|incorrect|false)\b|n['’]t\b|≠|!=|"
    r"不是|并非|不等于|不对|错",
    re.IGNORECASE,
)
_RETRACTED = re.compile(
    r"\b(?:no|wait|actually|correction|sorry|oops|rather|instead)\b|不对|更正|应该是", re.IGNORECASE
)
_WORD = re.compile(r"[A-Za-z]{3,}")
_OF_FORMULAS = frozenset("sqrt sin cos tan log exp and mol".split())
_WORDS_OF_FORMULA = 2
"""Words beside its numbers that the key of a calculation may hold: units and the like."""
_VALUE = re.compile(r"(?<![A-Za-z0-9^])([A-Za-z])\s*(?:=|\bis\b|是|为)\s*([-+]?[0-9][0-9./]*)")
_NUMBER = re.compile(r"(?<![A-Za-z0-9.])[-+]?[0-9][0-9./]*")
_TUPLE = re.compile(r"[(\[（]?\s*[-+\d./]+(?:\s*(?:,|，|、|\band\b|和)\s*[-+\d./]+)+\s*[)\]）]?")
_INEQUAL = re.compile(r"[<>≤≥≦≧]")
_FACTOR = re.compile(r"\bfactor|因式分解|分解因式", re.IGNORECASE)
_EXPAND = re.compile(r"\bexpand|\bmultiply out|\bsimplify|展开|化简", re.IGNORECASE)
_ARTICLES = frozenset(("a", "an", "the"))


def is_formula(key: str) -> bool:
    """Whether a key is a calculation's: numbers with hardly a word."""
    words = [word for word in _WORD.findall(key) if word.lower() not in _OF_FORMULAS]
    return any(sign.isdigit() for sign in key) and len(words) <= _WORDS_OF_FORMULA


def claims_words(response: str, key: str) -> bool:
    """Whether a response claims a key in words: the same words, articles and signs left out."""
    wanted = _words(key)
    return bool(wanted) and any(_words(claim) == wanted for claim in claims(response))


def claims_value(question: str, response: str, key: str, same: Same) -> bool:
    """Whether a response claims a calculation's key.

    Args:
        question: its text; what stands in it already is no answer, and it says which form counts.
        response: the graded text.
        key: as in the dataset.
        same: compares values.
    """
    if not response.strip():
        return False
    whole, *others = claims(response)
    tried = [(whole, whole), *((other, other) for other in others)]
    tried += [(other, _IS.split(other)[-1].strip(" .。")) for other in others]
    return any(
        claim
        and _admitted(question, statement, claim, key, same)
        and (same(claim, key) or _in_order(claim, key))
        for statement, claim in tried
    )


def claims(response: str) -> list[str]:
    """Texts that may be the answer of a response: all of it, and its last statement."""
    text = response.strip()
    if not text:
        return []
    declared = list(_DECLARED.finditer(text))
    if not declared:
        return [text, *_said(_last(text))]
    if _DENIED.search(_SENTENCE.split(text[: declared[-1].start()])[-1]):
        return [text]
    rest = text[declared[-1].end() :]
    first, *later = _SENTENCE.split(rest, maxsplit=1)
    if later and _RETRACTED.search(later[0]):
        return _said(_last(later[0]))
    return [text, rest, *_said(first)]


def _last(text: str) -> str:
    """The last sentence, of those with a number where there are any."""
    sentences = [part for part in _SENTENCE.split(text) if part.strip()] or [text]
    numbered = [part for part in sentences if any(sign.isdigit() for sign in part)]
    return (numbered or sentences)[-1]


def _said(sentence: str) -> list[str]:
    """A sentence without what leads to it, and that without its full stop."""
    plain = _LINKED.sub("", sentence.strip()).strip(" *$`")
    return [plain, plain.rstrip(".。!")]


def _admitted(question: str, statement: str, claim: str, key: str, same: Same) -> bool:
    """Whether a claim, made in a statement, may be compared with the key at all."""
    if _DENIED.search(statement) and not _DENIED.search(key):
        return False
    if bool(_INEQUAL.search(_arrowless(statement))) != bool(_INEQUAL.search(_arrowless(key))):
        return False
    echoed = _squeezed(claim) in _squeezed(question) and _squeezed(claim) != _squeezed(key)
    if echoed and _operates(claim):
        return False
    if _FACTOR.search(question) and claim.count("(") < key.count("("):
        return False
    if _EXPAND.search(question) and claim.count("(") > key.count("("):
        return False
    return _names_agree(statement, key, same)


def _names_agree(statement: str, key: str, same: Same) -> bool:
    """Whether a statement gives each name of the key the key's values, and no others.

    Values without names count in the key's order, where the key has several names.
    """
    wanted, given = _values(key), _values(statement)
    if not given:
        if len(wanted) < 2:
            return True
        numbers = _NUMBER.findall(key), _NUMBER.findall(statement)
        return len(numbers[0]) == len(numbers[1]) and all(map(same, *numbers))
    return all(
        name not in given
        or (_all_in(given[name], values, same) and _all_in(values, given[name], same))
        for name, values in wanted.items()
    )


def _in_order(claim: str, key: str) -> bool:
    """Whether a claim is nothing but numbers for the names of a key; `_admitted` compares them."""
    return len(_values(key)) > 1 and _TUPLE.fullmatch(claim.strip(" .。")) is not None


def _all_in(values: Sequence[str], others: Sequence[str], same: Same) -> bool:
    return all(any(same(value, other) for other in others) for value in values)


def _values(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in _VALUE.findall(text):
        found.setdefault(name, []).append(value.rstrip("./"))
    return found


def _words(text: str) -> tuple[str, ...]:
    usual = unicodedata.normalize("NFKC", text).casefold()
    return tuple(word for word in re.findall(r"\w+", usual) if word not in _ARTICLES)


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text).casefold().rstrip(".。")


def _arrowless(text: str) -> str:
    return re.sub(r"[-=]+>", "", text)


def _operates(text: str) -> bool:
    """Whether a text is a calculation still to be done rather than a value."""
    return re.search(r"[\w)]\s*[-+*/^×÷(]", text) is not None
