"""An extraction goes into a document: added, confirmed, superseded, never twice, never lost."""

from typing import Any

from deerflow.memory.deermem.applying import GONE, Origin, apply
from deerflow.memory.deermem.extraction import Extraction, NewFact
from deerflow.memory.protocol import RETIRED, Fact, MemoryDocument, Source, Summary

OSLO = Fact("f1", "Lives in Oslo.", created_at=1.0, last_confirmed=1.0)
TEA = Fact("f2", "Likes tea", "preference", 0.8, created_at=1.0, last_confirmed=1.0, valid_days=5)
BEFORE = MemoryDocument(facts=(OSLO, TEA), revision=2)


def origin(*entries: str, at: float = 10.0) -> Origin:
    return Origin(entries or ("e1",), Source("t1", "m1"), at)


def new(content: str, *supersedes: str, **fields: Any) -> NewFact:
    given = {"category": "context", "confidence": 0.9, **fields}
    return NewFact(content, supersedes=supersedes, **given)


def applied(
    extraction: Extraction, document: MemoryDocument = BEFORE, max_facts: int = 100, **origin_: Any
) -> tuple[MemoryDocument, str]:
    entry = str(origin_.pop("entry", "e1"))
    made = apply(document, extraction, origin(entry, **origin_), max_facts=max_facts)
    assert made is not None
    return made


def by_id(document: MemoryDocument) -> dict[str, Fact]:
    return {fact.id: fact for fact in document.facts}


def test_a_new_fact_says_where_it_came_from() -> None:
    document, line = applied(Extraction((new("Has a dog", valid_days=3.0),)))
    fact = document.facts[-1]
    assert (fact.content, fact.source, fact.created_at) == ("Has a dog", Source("t1", "m1"), 10.0)
    assert (fact.last_confirmed, fact.valid_days, fact.confidence) == (10.0, 3.0, 0.9)
    assert document.taken == ("e1",)
    assert line == "added 1 fact from thread t1"


def test_the_same_in_other_words_of_the_same_letters_is_confirmed() -> None:
    document, line = applied(Extraction((new("likes  TEA!", confidence=1.0),)))
    assert len(document.facts) == 2
    tea = by_id(document)["f2"]
    assert (tea.content, tea.confidence, tea.last_confirmed) == ("Likes tea", 1.0, 10.0)
    assert line == "confirmed 1 fact from thread t1"


def test_an_older_exchange_does_not_turn_the_clock_back() -> None:
    document, _ = applied(Extraction((new("Likes tea"),)), at=0.5)
    assert by_id(document)["f2"].last_confirmed == 1.0
    assert apply(BEFORE, Extraction(confirmed=("f1",)), origin(at=0.5), max_facts=9) is None


def test_a_contradicted_fact_is_superseded_with_pointers_both_ways() -> None:
    document, line = applied(Extraction((new("Lives in Bergen.", "f1"),)))
    old, fact = by_id(document)["f1"], document.facts[-1]
    assert (old.superseded_by, fact.supersedes) == (fact.id, "f1")
    assert old.content == "Lives in Oslo."
    assert [each.content for each in document.current] == ["Likes tea", "Lives in Bergen."]
    assert line == "added 1 fact, superseded 1 fact from thread t1"


def test_one_fact_may_take_the_place_of_two() -> None:
    document, _ = applied(Extraction((new("Lives in Oslo and likes tea", "f1", "f2"),)))
    (current,) = document.current
    facts = by_id(document)
    assert facts["f1"].superseded_by == facts["f2"].superseded_by == current.id
    assert current.supersedes == "f1"


def test_a_known_fact_may_replace_another() -> None:
    document, _ = applied(Extraction((new("Likes tea", "f1"),)))
    facts = by_id(document)
    assert (facts["f1"].superseded_by, facts["f2"].supersedes) == ("f2", "f1")
    assert len(facts) == 2


def test_a_fact_that_somebody_else_replaced_meanwhile_is_followed_to_its_end() -> None:
    first, _ = applied(Extraction((new("Lives in Bergen.", "f1"),)), at=5.0)
    document, _ = applied(Extraction((new("Lives in Rome.", "f1"),)), first, entry="e2")
    contents = {fact.id: fact.content for fact in document.facts}
    bergen = next(fact for fact in document.facts if fact.content == "Lives in Bergen.")
    assert contents[bergen.superseded_by] == "Lives in Rome."
    assert [fact.content for fact in document.current] == ["Likes tea", "Lives in Rome."]


def test_unknown_and_retired_ids_change_nothing_else() -> None:
    gone = Fact("f3", "Has a cat", superseded_by=RETIRED)
    before = BEFORE.with_(facts=(*BEFORE.facts, gone))
    update = Extraction((new("Has a dog", "nobody", "f3"),), confirmed=("?",), contradicted=("!",))
    document, line = applied(update, before)
    assert by_id(document)["f3"] == gone
    assert document.facts[-1].supersedes == ""
    assert line == "added 1 fact from thread t1"


def test_a_fact_cannot_replace_itself() -> None:
    document, _ = applied(Extraction((new("Lives in Oslo", "f1"),)))
    assert by_id(document)["f1"].superseded_by == ""


def test_pointers_in_a_circle_end() -> None:
    circle = (Fact("a", "A", superseded_by="b"), Fact("b", "B", superseded_by="a"))
    document, _ = applied(Extraction((new("C", "a"),)), MemoryDocument(facts=circle))
    assert [fact.content for fact in document.current] == ["C"]


def test_what_holds_no_more_without_a_successor_is_a_fact_of_its_own() -> None:
    document, _ = applied(Extraction(contradicted=("f1",)))
    old, fact = by_id(document)["f1"], document.facts[-1]
    assert (fact.content, fact.category) == (GONE + "Lives in Oslo.", "correction")
    assert (old.superseded_by, fact.supersedes) == (fact.id, "f1")
    assert fact.valid_days is not None


def test_a_contradiction_that_a_new_fact_answers_adds_nothing_more() -> None:
    update = Extraction((new("Lives in Bergen.", "f1"),), contradicted=("f1",))
    document, _ = applied(update)
    assert [fact.content for fact in document.current] == ["Likes tea", "Lives in Bergen."]


def test_confirmed_ids_hold_from_now_on() -> None:
    document, line = applied(Extraction(confirmed=("f1", "f1", "f2")))
    assert {fact.last_confirmed for fact in document.facts} == {10.0}
    assert line == "confirmed 2 facts from thread t1"


def test_summaries_are_replaced_only_when_they_read_otherwise() -> None:
    before = BEFORE.with_(user={"workContext": Summary("Boats.", 1.0)})
    texts = {"workContext": "Boats.", "topOfMind": "Exam.", "recentMonths": "Moved."}
    document, line = applied(Extraction(summaries=texts), before)
    assert document.user["workContext"] == Summary("Boats.", 1.0)
    assert document.user["topOfMind"] == Summary("Exam.", 10.0)
    assert document.history == {"recentMonths": Summary("Moved.", 10.0)}
    assert line == "updated 2 summaries from thread t1"
    same = Extraction(summaries={"workContext": "Boats."})
    assert apply(before, same, origin(), max_facts=9) is None


def test_an_entry_twice_changes_nothing() -> None:
    update = Extraction((new("Has a dog"),), confirmed=("f1",))
    once, _ = applied(update)
    assert apply(once, update, origin(), max_facts=9) is None


def test_the_same_entries_give_the_same_ids() -> None:
    update = Extraction((new("Has a dog"), new("Has a cat")))
    assert applied(update)[0] == applied(update)[0]
    ids = [fact.id for fact in applied(update)[0].facts]
    assert len(set(ids)) == 4


def test_a_fact_that_was_superseded_before_can_come_back() -> None:
    first, _ = applied(Extraction((new("Lives in Bergen.", "f1"),)))
    bergen = first.current[-1].id
    back = apply(first, Extraction((new("Lives in Oslo.", bergen),)), origin("e2"), max_facts=9)
    assert back is not None
    assert [fact.content for fact in back[0].current] == ["Likes tea", "Lives in Oslo."]
    assert len(back[0].facts) == 4


def test_too_many_facts_make_room_without_loss() -> None:
    update = Extraction(tuple(new(f"Fact {n}") for n in range(5)))
    document, _ = applied(update, max_facts=3)
    assert len(document.current) == 3
    assert len(document.facts) == 7


def test_nothing_to_say_changes_nothing() -> None:
    assert apply(BEFORE, Extraction(), origin(), max_facts=9) is None
