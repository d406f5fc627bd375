"""Replies of the updater's model: what can be read is taken, what cannot costs nothing else."""

import json
from typing import Any

import pytest

from deerflow.errors import ModelError
from deerflow.memory.deermem.extraction import Extraction, read_reply

GOOD = {"content": "Lives in Oslo.", "category": "context", "confidence": 0.9}


def read(value: Any) -> Extraction:
    text = value if isinstance(value, str) else json.dumps(value)
    return read_reply(text, threshold=0.7)


def contents(value: Any) -> list[str]:
    return [fact.content for fact in read(value).facts]


def test_every_field_is_read() -> None:
    fact = {**GOOD, "valid_days": 30, "supersedes": ["f1", "f2"]}
    reply = read(
        {
            "facts": [fact],
            "summaries": {"workContext": " Builds boats. ", "recentMonths": "Moved."},
            "confirmed": ["f3"],
            "contradicted": ["f4"],
        }
    )
    (new,) = reply.facts
    assert (new.content, new.category, new.confidence) == ("Lives in Oslo.", "context", 0.9)
    assert (new.valid_days, new.supersedes) == (30.0, ("f1", "f2"))
    assert reply.summaries == {"workContext": "Builds boats.", "recentMonths": "Moved."}
    assert (reply.confirmed, reply.contradicted) == (("f3",), ("f4",))


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"facts": [GOOD]}),
        "```json\n" + json.dumps({"facts": [GOOD]}, indent=2) + "\n```",
        "```\n" + json.dumps({"facts": [GOOD]}) + "\n```\nThat is all.",
        "Sure {as you wish}! Here: " + json.dumps({"facts": [GOOD]}) + " Anything else?",
        json.dumps([GOOD]),
        json.dumps(GOOD),
        json.dumps({"facts": [GOOD, {**GOOD, "content": "cut"}]})[:-20],
        json.dumps({"note": {"a": 1}, "facts": [GOOD]}),
        '{"facts": [' + json.dumps(GOOD) + ', {"content": "cut off',
    ],
)
def test_json_is_found_wherever_it_stands(text: str) -> None:
    assert contents(text) == ["Lives in Oslo."]


@pytest.mark.parametrize("text", ["{}", "[]", "```json\n{}\n```", '{"facts": []}'])
def test_nothing_to_add_is_an_answer(text: str) -> None:
    assert read(text) == Extraction()


@pytest.mark.parametrize(
    "text", ["", "I could not find anything.", "{broken", "null", "[1, 2]", "{" * 100_000]
)
def test_no_json_is_a_failure_of_the_model(text: str) -> None:
    with pytest.raises(ModelError, match="JSON"):
        read(text)


def test_deep_nesting_is_a_failure_of_the_model() -> None:
    with pytest.raises(ModelError):
        read('{"facts":' + "[" * 100_000)


@pytest.mark.parametrize(
    "confidence", [None, "high", float("nan"), float("inf"), 7, -1, [], {}, True]
)
def test_a_broken_confidence_costs_that_fact_alone(
    confidence: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert contents({"facts": [{**GOOD, "content": "x", "confidence": confidence}, GOOD]}) == [
        "Lives in Oslo."
    ]
    assert "confidence" in caplog.text


@pytest.mark.parametrize("fact", [None, "a fact", 7, [], {}, {"content": ["x"], "confidence": 1}])
def test_what_is_no_fact_is_left_out(fact: Any) -> None:
    assert contents({"facts": [fact, GOOD]}) == ["Lives in Oslo."]


@pytest.mark.parametrize("content", ["", "  \n", "\x00", None, "x" * 1_000_000])
def test_empty_and_huge_contents_are_left_out(
    content: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert contents({"facts": [{**GOOD, "content": content}, GOOD]}) == ["Lives in Oslo."]
    assert len(caplog.text) < 1_000


def test_less_certain_facts_are_left_out() -> None:
    facts = [{**GOOD, "content": str(c), "confidence": c} for c in (0, 0.5, 0.69, 0.7, 1)]
    assert contents({"facts": [*facts, {**GOOD, "content": "text", "confidence": "0.8"}]}) == [
        "0.7", "1", "text",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "category"),
    [("Preferences", "preference"), (" goal ", "goal"), ("banana", "context"), (None, "context"),
     (["goal"], "context"), (7, "context")],
)  # fmt: skip
def test_a_wrong_category_costs_the_category_alone(given: Any, category: str) -> None:
    (fact,) = read({"facts": [{**GOOD, "category": given}]}).facts
    assert fact.category == category


@pytest.mark.parametrize("days", ["soon", -3, 0, float("nan"), [], True])
def test_broken_days_cost_the_days_alone(days: Any) -> None:
    (fact,) = read({"facts": [{**GOOD, "valid_days": days}]}).facts
    assert fact.valid_days is None


def test_broken_places_cost_nothing_else() -> None:
    reply = read(
        {
            "facts": [{**GOOD, "supersedes": 7}],
            "summaries": {"workContext": ["x"], "shoeSize": "44", "topOfMind": "Boats.",
                          "personalContext": "x" * 100_000, "recentMonths": None},
            "confirmed": "f1",
            "contradicted": {"a": 1},
        }
    )  # fmt: skip
    assert [fact.content for fact in reply.facts] == ["Lives in Oslo."]
    assert reply.facts[0].supersedes == ()
    assert reply.summaries == {"topOfMind": "Boats."}
    assert (reply.confirmed, reply.contradicted) == (("f1",), ())
    assert contents({"facts": "none", "summaries": [], "confirmed": [None, 7]}) == []


def test_a_flood_of_facts_is_bounded() -> None:
    assert len(contents({"facts": [{**GOOD, "content": str(n)} for n in range(1_000)]})) == 50
