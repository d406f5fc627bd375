"""Changes of a document."""

from __future__ import annotations

import pytest

from deerflow.errors import UsageError
from deerflow.memory.deermem.facts import (
    LAST_SECOND,
    MAX_PAST,
    MAX_SUMMARY_CHARS,
    checked_confidence,
    checked_content,
    confirmed,
    fact_of,
    retired,
    sealed,
    stale,
    with_fact,
)
from deerflow.memory.protocol import RETIRED, Fact, MemoryDocument, Summary

TEA = Fact("tea", "Likes tea", "preference", 0.8, created_at=1.0, last_confirmed=1.0)


def document(*facts: Fact) -> MemoryDocument:
    return MemoryDocument(facts=facts)


def test_a_known_fact_is_confirmed() -> None:
    again = Fact("new", "likes  TEA.", "context", 0.9, last_confirmed=5.0, valid_days=3.0)
    changed, kept = with_fact(document(TEA), again)
    assert changed.facts == (kept,)
    assert kept == TEA.with_(confidence=0.9, last_confirmed=5.0)


def test_what_is_said_again_is_never_less_certain_nor_shorter() -> None:
    once = TEA.with_(valid_days=10.0, confidence=0.9, last_confirmed=9.0)
    again = confirmed(once, Fact("x", "", "correction", 0.1, last_confirmed=5.0, valid_days=2.0))
    assert again == once.with_(category="correction")
    assert confirmed(once, Fact("x", "")).valid_days is None


def test_a_contradicted_fact_points_to_the_new_one_and_back() -> None:
    changed, kept = with_fact(document(TEA), Fact("coffee", "Likes coffee"), replaces="tea")
    assert kept.supersedes == "tea"
    assert changed.facts == (TEA.with_(superseded_by="coffee"), kept)
    assert changed.current == (kept,)


def test_a_fact_that_is_known_can_replace_another() -> None:
    coffee = Fact("coffee", "Likes coffee")
    changed, kept = with_fact(document(TEA, coffee), Fact("x", "likes coffee"), replaces="tea")
    assert [fact.id for fact in changed.facts] == ["tea", "coffee"]
    assert (kept.id, kept.supersedes) == ("coffee", "tea")
    assert changed.facts[0].superseded_by == "coffee"


def test_the_same_words_in_another_category_replace_the_fact() -> None:
    changed, kept = with_fact(document(TEA), Fact("new", "Likes tea", "goal"), replaces="tea")
    assert changed.current == (kept,)
    assert kept.category == "goal"


def test_the_least_valuable_facts_make_room() -> None:
    facts = (
        Fact("unsure", "a", confidence=0.7, last_confirmed=9.0),
        Fact("old", "b", confidence=0.9, last_confirmed=1.0),
        Fact("fresh", "c", confidence=0.9, last_confirmed=2.0),
        Fact("set right", "d", "correction", 0.1),
    )
    order: list[str] = []
    for room in (3, 2, 1, 0):
        left = {fact.id for fact in retired(document(*facts), room).current}
        order += [fact.id for fact in facts if fact.id not in left and fact.id not in order]
    assert order == ["unsure", "old", "fresh", "set right"]
    gone = fact_of(retired(document(*facts), 3), "unsure")
    assert gone is not None
    assert gone.superseded_by == RETIRED


def test_a_new_fact_stays_however_little_it_is_worth() -> None:
    changed, kept = with_fact(document(TEA), Fact("new", "x", confidence=0.0), max_facts=1)
    assert changed.current == (kept,)
    assert len(changed.facts) == 2


def test_stale_by_the_days_since_it_was_last_confirmed() -> None:
    fact = TEA.with_(last_confirmed=86_400.0, valid_days=2.0)
    assert not stale(fact, 3 * 86_400.0)
    assert stale(fact, 3 * 86_400.0 + 1)
    assert not stale(TEA, 1e12)


def test_the_history_is_bounded_and_the_current_facts_stay() -> None:
    past = [Fact(f"p{n}", f"past {n}", superseded_by=RETIRED) for n in range(MAX_PAST + 10)]
    kept = sealed(MemoryDocument(), document(TEA, *past), 5.0)
    assert len(kept.facts) == MAX_PAST + 1
    assert kept.facts[0].id == "tea"
    assert kept.facts[1].id == "p10"


def test_a_sealed_document_fits_into_a_file() -> None:
    given = MemoryDocument(
        user={"workContext": Summary("word " * 10_000, -5.0), "topOfMind": Summary(" \n ")},
        facts=(Fact("f", " a\nb ", confidence=1, created_at=1e300, last_confirmed=0.1234567),),
    )
    kept = sealed(MemoryDocument(revision=7), given, 3.0)
    assert kept.revision == 8
    assert kept.updated_at == 3.0
    assert list(kept.user) == ["workContext"]
    assert len(kept.user["workContext"].text) <= MAX_SUMMARY_CHARS
    assert kept.user["workContext"].updated_at == 0.0
    (fact,) = kept.facts
    assert (fact.content, fact.created_at, fact.last_confirmed) == ("a b", LAST_SECOND, 0.123457)


def test_unknown_layers_are_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="mood"):
        sealed(MemoryDocument(), MemoryDocument(user={"mood": Summary("x")}), 1.0)


@pytest.mark.parametrize("content", ["", "  \n", None, 5, "x" * 2001])
def test_content_that_is_refused(content: object) -> None:
    with pytest.raises(UsageError) as caught:
        checked_content(content)
    assert caught.value.cure


@pytest.mark.parametrize("value", [None, "high", float("nan"), 7, -0.1, True, 10**400])
def test_confidence_that_is_refused(value: object) -> None:
    with pytest.raises(UsageError) as caught:
        checked_confidence(value)
    assert "0 to 1" in caught.value.cure
