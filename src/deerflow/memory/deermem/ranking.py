"""Which facts matter for a request: words in common, then confidence, then recency."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from deerflow.memory.deermem.words import is_prefix, query_words, words
from deerflow.memory.protocol import Fact

SATURATION, LENGTH = 1.2, 0.75
"""k1 and b of BM25 (Robertson and Zaragoza, "The probabilistic relevance framework", 2009)."""


def relevance(
    query: str,
    facts: Sequence[Fact],
    *,
    total: int | None = None,
    mean_words: float | None = None,
) -> dict[str, float]:
    """BM25 score by id of each fact that shares a word with the query; all are above 0.

    Args:
        query: of the user.
        facts: all of a user, or at least all that share a word.
        total: number of all facts when `facts` are not all.
        mean_words: mean number of words of all facts when `facts` are not all.
    """
    wanted = query_words(query)
    counts = {fact.id: Counter(words(fact.content)) for fact in facts} if wanted else {}
    if not counts:
        return {}
    total = total or len(counts)
    mean = mean_words or sum(sum(each.values()) for each in counts.values()) / len(counts) or 1.0
    found: dict[str, float] = {}
    for word in wanted:
        hits = {id: hit for id, each in counts.items() if (hit := _occurrences(word, each))}
        rarity = math.log(1 + (total - len(hits) + 0.5) / (len(hits) + 0.5))
        for id, hit in hits.items():
            long = 1 - LENGTH + LENGTH * sum(counts[id].values()) / mean
            score = rarity * hit * (SATURATION + 1) / (hit + SATURATION * long)
            found[id] = found.get(id, 0.0) + score
    return found


def ordered(facts: Iterable[Fact], scores: dict[str, float]) -> list[Fact]:
    """Most relevant first, then most certain, then latest; equal ones by id, so never by chance."""
    return sorted(
        facts,
        key=lambda f: (-scores.get(f.id, 0.0), -f.confidence, -f.last_confirmed, f.id),
    )


def newest(facts: Iterable[Fact]) -> list[Fact]:
    """Latest first."""
    return sorted(facts, key=lambda f: (-f.last_confirmed, -f.created_at, f.id))


def _occurrences(word: str, counts: Counter[str]) -> int:
    if is_prefix(word):
        return sum(number for other, number in counts.items() if other.startswith(word))
    return counts[word]
