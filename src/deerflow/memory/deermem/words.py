"""The words of a text: for finding facts again and for telling whether two say the same."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Any, cast

import regex  # \p{…} classes, which the standard library's re lacks

_pattern = cast("Any", regex).compile  # ships no types
_WORD = _pattern(r"[\p{L}\p{N}\p{M}]+")
_SAYS = _pattern(rf"{_WORD.pattern}|[\p{{S}}#%&@*/]|(?<![\p{{L}}\p{{N}}])-(?=\p{{N}})")
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}ー\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_PART = _pattern(rf"([{_UNSPACED}]\p{{M}}*)+|[^{_UNSPACED}]+")
_LETTER = _pattern(rf"[{_UNSPACED}]\p{{M}}*")

STOP_WORDS = frozenset(
    (
        "a about an and are as at be been but by can could did do does for from had has have how i"
        " if in is it its me my of on or our please should so than that the their them then there"
        " these they this to us was we were what when where which who why will with would you your"
    ).split()
)
"""English words that say nothing about a subject; left out of queries, not of facts."""


MAX_QUERY_CHARS, MAX_QUERY_WORDS = 20_000, 200
"""Of a long request its beginning and its end count."""


def clean(text: str) -> str:
    """One line that every storage can hold: white space joined, no control or broken character."""
    if text.isprintable():  # neither control nor broken characters
        return " ".join(text.split())
    sound = text.encode("utf-8", "replace").decode()
    spaced = (" " if unicodedata.category(c) in ("Cc", "Zl", "Zp") else c for c in sound)
    return " ".join("".join(spaced).split())


@lru_cache(maxsize=4096)
def normalised(content: str) -> str:
    """What two facts that say the same have in common.

    Unicode form (NFKC), case, punctuation and spaces make no difference; symbols do (C, C++ and
    C#; 5 and -5; $5 and €5). A text of nothing but punctuation stands for itself.
    """
    folded = _folded(content)
    return " ".join(_SAYS.findall(folded)) or " ".join(folded.split())


@lru_cache(maxsize=4096)  # the facts of a user are looked at with every request
def words(content: str) -> tuple[str, ...]:
    """Words of a fact, in order: folded, English plurals as singulars; CJK as pairs of letters.

    Scripts without spaces give each pair of neighbours, and the last letter alone, so that every
    single letter is the beginning of some word (see `query_words`).
    """
    found: list[str] = []
    for kind, letters in _parts(content):
        if kind == "word":
            found.append(_singular(letters[0]))
        else:
            found += ["".join(pair) for pair in zip(letters, letters[1:], strict=False)]
            found.append(letters[-1])
    return tuple(found)


def query_words(query: str) -> tuple[str, ...]:
    """Words to look for, each once; a single CJK letter matches the beginning of words.

    Stop words are left out unless there is nothing else.
    """
    if len(query) > MAX_QUERY_CHARS:
        query = f"{query[: MAX_QUERY_CHARS // 2]} {query[-MAX_QUERY_CHARS // 2 :]}"
    found: list[str] = []
    for kind, letters in _parts(query):
        if kind == "word":
            found.append(_singular(letters[0]))
        elif len(letters) == 1:
            found.append(letters[0])
        else:
            found += ["".join(pair) for pair in zip(letters, letters[1:], strict=False)]
    telling = [word for word in found if word not in STOP_WORDS]
    return tuple(dict.fromkeys(telling or found))[:MAX_QUERY_WORDS]


def is_prefix(word: str) -> bool:
    """Whether a query's word stands for all words that begin with it."""
    return _LETTER.fullmatch(word) is not None


def _parts(text: str) -> list[tuple[str, list[str]]]:
    """("word", [word]) or ("pairs", letters) for each run of letters of one kind."""
    parts: list[tuple[str, list[str]]] = []
    for run in _WORD.findall(_folded(text)):
        for match in _PART.finditer(run):
            letters = _LETTER.findall(match[0])
            parts.append(("pairs", letters) if letters else ("word", [match[0]]))
    return parts


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def _singular(word: str) -> str:
    """Harman's S-stemmer ("How effective is suffixing?", 1991): plurals alone, ASCII alone."""
    if len(word) <= 3 or not word.isascii() or not word.endswith("s"):
        return word
    if word.endswith("ies"):
        return word if word.endswith(("eies", "aies")) else f"{word[:-3]}y"
    if word.endswith("es"):
        return word if word.endswith(("aes", "ees", "oes")) else word[:-1]
    return word if word.endswith(("us", "ss", "is")) else word[:-1]
