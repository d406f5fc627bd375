"""Which facts matter for a request."""

from __future__ import annotations

from deerflow.memory.deermem.ranking import newest, ordered, relevance
from deerflow.memory.protocol import Fact

FACTS = (
    Fact("a", "Likes green tea"),
    Fact("b", "Likes black tea and dark bread"),
    Fact("c", "Owns a rare green parrot"),
    Fact("d", "猫が好き"),
)


def test_rare_words_and_short_facts_weigh_more() -> None:
    scores = relevance("tea for my parrot", FACTS)
    assert scores.keys() == {"a", "b", "c"}
    assert scores["c"] > scores["a"] > scores["b"] > 0


def test_a_subset_scores_as_the_whole_when_told_the_sizes() -> None:
    whole = relevance("green", FACTS)
    mean = (3 + 6 + 5 + 4) / 4
    part = relevance("green", [FACTS[0], FACTS[2]], total=4, mean_words=mean)
    assert part == whole


def test_nothing_in_common() -> None:
    assert relevance("quantum physics", FACTS) == {}
    assert relevance("", FACTS) == {}
    assert relevance("tea", []) == {}


def test_equal_facts_stand_in_the_order_of_their_ids() -> None:
    facts = [Fact(name, "x") for name in "cab"]
    assert [fact.id for fact in ordered(facts, {})] == ["a", "b", "c"]
    assert [fact.id for fact in newest(facts)] == ["a", "b", "c"]


def test_newest_by_confirmation() -> None:
    facts = [Fact("a", "x", last_confirmed=1.0), Fact("b", "x", last_confirmed=2.0)]
    assert [fact.id for fact in newest(facts)] == ["b", "a"]
