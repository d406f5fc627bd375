"""Whether a text meets a criterion of a rubric, told by whole words and their negations.

A heuristic for answers in words: it reads neither order nor sense ("the Yellow River is longer than
the Yangtze" has the words of the contrary). It is stricter than one keyword anywhere, no more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from deerflow.exam.graders.compat import keywords, synonyms_of

_TOKEN = re.compile(r"[a-z0-9]+(?:\.[0-9]+)?|[\u4e00-\u9fff]+")
_CLAUSE = re.compile(r"[.!?;,:\n。！？；，：]+(?!\d)|\b(?:but|because)\b|但是?|因为")
_QUOTED = re.compile(r"(?<!\w)['\"‘“]([^'\"‘’“”]+)['\"’”](?!\w)")
_OR = re.compile(r"\s+or\s+|/|或者?")
_AND = re.compile(r"\s+and\s+|[、和与]")
_ALIAS = re.compile(r"(.+?)\s+(?:instead of|for)\s+(.+)", re.IGNORECASE)
_NEGATION = frozenset("not no never neither nor without cannot".split())
_NEGATION_SIGNS = ("不", "没", "非", "无", "未")
_SCOPE = 4
"""Words before a word among which a negation reaches it."""
_OF_GRADERS = frozenset(
    "identifies explains applies writes finds names includes include both correctly specifically "
    "function reactants products required equals between two uses using".split()
)
_OF_GRADERS_ZH = re.compile(r"提到|提及|说明|指出|解释|写出|说出")
_FAULT = re.compile(r"\b(wrong|incorrect|mistake|error)\b")
_ENDINGS = ("ness", "ing", "ies", "ly", "es", "ed", "s", "e", "y")
_STEM = 3


@dataclass(frozen=True, slots=True)
class _Clause:
    """The words of a clause, and of each whether a negation reaches it."""

    words: tuple[str, ...]
    negated: tuple[bool, ...]


class Wording:
    """A response as clauses of words.

    Args:
        response: the graded text.
        notes: of the question; `accept: A for B` and `A instead of B` let A stand for B, any other
            accepted phrase stands for the criteria that share a word with it.
    """

    def __init__(self, response: str, notes: str = "") -> None:
        text = _plain(response)
        self._phrases: list[str] = []
        for synonym in synonyms_of(notes):
            alias = _ALIAS.fullmatch(_plain(synonym))
            if alias is None:
                self._phrases.append(_plain(synonym))
            else:
                text = re.sub(rf"\b{re.escape(alias[1])}\b", alias[2], text)
        self._clauses = [_clause(part) for part in _CLAUSE.split(text) if part.strip()]

    def meets(self, criterion: str) -> bool:
        """Whether the text asserts what the criterion asks for.

        Any alternative ("or") is enough; in it every part ("and") needs more than half of its
        words, all of its numbers, and all that it quotes.
        """
        plain = _plain(criterion)
        quoted = _QUOTED.findall(plain)
        if quoted:
            fault = _FAULT.search(plain) is not None
            return all(self._says(phrase, either=fault) for phrase in quoted)
        alternatives = [*_OR.split(plain), *self._accepted_for(plain)]
        return any(self._has(alternative) for alternative in alternatives)

    def _accepted_for(self, criterion: str) -> list[str]:
        stems = {_stem(word) for word in _content(criterion)}
        return [phrase for phrase in self._phrases if stems & {_stem(w) for w in _content(phrase)}]

    def _has(self, alternative: str) -> bool:
        negated = any(_negates(word) for word in _TOKEN.findall(alternative))
        parts = [alternative] if negated else _AND.split(alternative)
        wanted = [part for part in map(_content, parts) if part]
        return bool(wanted) and all(self._has_most(part, negated) for part in wanted)

    def _has_most(self, wanted: Sequence[str], negated: bool) -> bool:
        found = [word for word in wanted if self._asserts(word, negated)]
        numbers = [word for word in wanted if word[0].isdigit()]
        return 2 * len(found) > len(wanted) and all(number in found for number in numbers)

    def _asserts(self, wanted: str, negated: bool) -> bool:
        return any(
            _same(word, wanted) and reached == negated
            for clause in self._clauses
            for word, reached in zip(clause.words, clause.negated, strict=True)
        )

    def _says(self, phrase: str, *, either: bool) -> bool:
        wanted = tuple(_TOKEN.findall(phrase))
        return any(
            clause.words[place : place + len(wanted)] == wanted
            and (either or not clause.negated[place])
            for clause in self._clauses
            for place in range(len(clause.words))
        )


def _clause(text: str) -> _Clause:
    words = tuple(_TOKEN.findall(text))
    reached = tuple(
        any(_negates(word) for word in words[max(0, place - _SCOPE) : place])
        or any(sign in words[place] for sign in _NEGATION_SIGNS)
        for place in range(len(words))
    )
    return _Clause(words, reached)


def _plain(text: str) -> str:
    return re.sub(r"n['’]t\b", " not", text.lower())


def _negates(word: str) -> bool:
    return word in _NEGATION


def _content(text: str) -> list[str]:
    """Words and numbers of a part of a criterion that say something."""
    known = [word for word in keywords(text) if word not in _OF_GRADERS | _NEGATION]
    tokens = _TOKEN.findall(_OF_GRADERS_ZH.sub(" ", text))
    others = [word for word in tokens if word[0].isdigit() or word[0] > "\u2fff"]
    return [*known, *others]


def _same(word: str, wanted: str) -> bool:
    if wanted[0] > "\u2fff":  # Chinese is written without spaces
        return wanted in word
    return word == wanted or (not wanted[0].isdigit() and _stem(word) == _stem(wanted))


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _STEM:
            return word[: -len(ending)]
    return word
