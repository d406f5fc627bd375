"""Memories as JSON: what is written is read, 2.x files are understood, bad values are named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.memory.deermem.document import from_json, iso, parse, seconds_of, to_json
from deerflow.memory.deermem.facts import sealed
from deerflow.memory.protocol import (
    CATEGORIES,
    HISTORY_SUMMARIES,
    USER_SUMMARIES,
    Fact,
    MemoryDocument,
    Source,
    Summary,
)

OLD: dict[str, Any] = {
    "version": "1.0",
    "lastUpdated": "2025-06-01T12:00:00.123456",
    "user": {
        "workContext": {"summary": "Builds bridges.", "updatedAt": "2025-06-01T12:00:00Z"},
        "personalContext": {"summary": "", "updatedAt": ""},
        "topOfMind": {"summary": "The move.", "updatedAt": "2025-06-01T14:00:00+02:00"},
    },
    "history": {
        "recentMonths": {"summary": "", "updatedAt": ""},
        "earlierContext": {"summary": "Rome.", "updatedAt": None},
        "longTermBackground": {"summary": "", "updatedAt": ""},
    },
    "facts": [
        {
            "id": "fact_1a2b3c4d",
            "content": "Prefers tea",
            "category": "preference",
            "confidence": 0.9,
            "createdAt": "2025-05-31T08:00:00Z",
            "source": "thread-1",
        },
        {"content": "Has a dog", "category": "Pets", "confidence": 1, "source": "unknown"},
    ],
}
"""As 2.x versions wrote it, and a fact that lacks what may be missing."""


def test_a_2_x_file() -> None:
    reading = from_json(OLD)
    assert reading.left_out == ()
    document = reading.document
    assert document.user["workContext"] == Summary("Builds bridges.", 1_748_779_200.0)
    assert document.user["topOfMind"].updated_at == 1_748_779_200.0
    assert document.history == {"earlierContext": Summary("Rome.")}
    tea, dog = document.facts
    assert tea == Fact(
        "fact_1a2b3c4d",
        "Prefers tea",
        "preference",
        0.9,
        Source("thread-1"),
        1_748_678_400.0,
        1_748_678_400.0,
    )
    assert (dog.category, dog.source, dog.id[:5]) == ("context", Source(), "fact_")
    written = to_json(document)
    assert written["facts"][0] == {**OLD["facts"][0], "lastConfirmed": "2025-05-31T08:00:00Z"}
    assert written["user"]["personalContext"] == {"summary": "", "updatedAt": ""}


line = st.text(st.characters(codec="utf-8"), min_size=1, max_size=50).filter(lambda t: t.strip())
times = st.floats(0, 253_402_300_799, allow_subnormal=False)
facts = st.builds(
    Fact,
    id=st.uuids().map(str),
    content=line.filter(lambda t: any(c.isalnum() for c in t)),
    category=st.sampled_from(CATEGORIES),
    confidence=st.floats(0, 1),
    source=st.builds(Source, line, line),
    created_at=times.map(lambda t: t + 1),
    last_confirmed=times.map(lambda t: t + 1),
    valid_days=st.none() | st.floats(0, 1e6),
    supersedes=st.just("") | st.uuids().map(str),
    superseded_by=st.just("") | st.uuids().map(str),
)
documents = st.builds(
    MemoryDocument,
    user=st.dictionaries(st.sampled_from(USER_SUMMARIES), st.builds(Summary, line, times)),
    history=st.dictionaries(st.sampled_from(HISTORY_SUMMARIES), st.builds(Summary, line, times)),
    facts=st.lists(facts, max_size=5, unique_by=lambda f: f.id).map(tuple),
    taken=st.lists(st.uuids().map(str), max_size=3).map(tuple),
)


@given(documents, times)
def test_what_is_written_is_read(document: MemoryDocument, now: float) -> None:
    kept = sealed(MemoryDocument(), document, now + 1)
    data = json.dumps(to_json(kept), allow_nan=False).encode()
    reading = from_json(parse(data))
    assert reading.left_out == ()
    assert reading.document == kept


@pytest.mark.parametrize(
    ("fact", "line"),
    [
        ({"content": "x" * 1_048_576}, "facts[0] has 1,048,576 characters, at most 2,000 are kept"),
        ({"content": "y" * 2_001}, "facts[0] has 2,001 characters, at most 2,000 are kept"),
        ({"content": None}, "facts[0] has no content that is text"),
        ({"content": " \n\t"}, "facts[0] is empty"),
        ({}, "facts[0] has no content that is text"),
        ("text", "facts[0] is no object"),
        (None, "facts[0] is no object"),
        ({"content": "a", "confidence": float("nan")}, "facts[0] has the confidence nan"),
        ({"content": "a", "confidence": "high"}, "facts[0] has the confidence 'high'"),
        ({"content": "a", "confidence": 7}, "facts[0] has the confidence 7"),
        ({"content": "a", "confidence": True}, "facts[0] has the confidence True"),
        ({"content": "a", "confidence": 10**400}, "facts[0] has the confidence 1000"),
        ({"content": "a", "validDays": -1}, "facts[0] has validDays -1"),
        ({"content": "a", "validDays": float("inf")}, "facts[0] has validDays inf"),
    ],
)
def test_a_bad_fact_is_left_out_with_its_place(fact: Any, line: str) -> None:
    reading = from_json({"facts": [fact, {"content": "good"}]})
    (problem,) = reading.left_out
    assert problem.startswith(line)
    assert len(problem) < 120
    assert [each.content for each in reading.document.facts] == ["good"]


@pytest.mark.parametrize(
    ("raw", "lines"),
    [
        ({"user": []}, ["user is no object"]),
        ({"facts": {}}, ["facts is no list"]),
        ({"user": {"workContext": {"summary": 5}}}, ["user.workContext is no text"]),
        ({"user": {"mood": {"summary": "x"}}}, ["user.mood is no summary that is known"]),
        (
            {"history": {"recentMonths": "x" * 30_000}},
            ["history.recentMonths has 30,000 characters, at most 20,000 are kept"],
        ),
        ({"user": None, "history": None, "facts": None}, []),
        ({"user": {"workContext": "as plain text"}}, []),
    ],
)
def test_bad_layers_are_left_out(raw: Any, lines: list[str]) -> None:
    reading = from_json(raw)
    assert list(reading.left_out) == lines
    assert reading.recognised


@pytest.mark.parametrize("raw", [None, [], 5, "text", {}, {"version": "1.0"}, [OLD]])
def test_something_else_is_no_memory(raw: Any) -> None:
    reading = from_json(raw)
    assert not reading.recognised
    assert reading.document == MemoryDocument()


def test_ids_that_occur_twice() -> None:
    one, other = {"id": "f", "content": "a"}, {"id": "f", "content": "b"}
    document = from_json({"facts": [one, one, other]}).document
    assert [fact.content for fact in document.facts] == ["a", "b"]
    assert len({fact.id for fact in document.facts}) == 2


@pytest.mark.parametrize(
    "data", [b"", b'{"facts": [', b"\xff\xfe", b"[" * 100_000, b"1" * 10_000, b"nonsense"]
)
def test_what_is_no_json(data: bytes) -> None:
    with pytest.raises(ValueError):
        parse(data)


def test_a_byte_order_mark_is_no_problem() -> None:
    assert parse(b'\xef\xbb\xbf{"facts": []}') == {"facts": []}


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("1970-01-01T00:00:01Z", 1.0),
        ("1970-01-01T01:00:01+01:00", 1.0),
        ("1970-01-01 00:00:01", 1.0),
        ("1970-01-02", 86_400.0),
        (1.5, 1.5),
        ("yesterday", 0.0),
        ("", 0.0),
        (None, 0.0),
        (True, 0.0),
        (-5, 0.0),
        (float("nan"), 0.0),
        (1e300, 0.0),
        (10**400, 0.0),
        ("0001-01-01T00:00:00+14:00", 0.0),
    ],
)
def test_times(value: Any, seconds: float) -> None:
    assert seconds_of(value) == seconds


def test_no_time_is_no_text() -> None:
    assert iso(0) == ""
    assert iso(1.000001) == "1970-01-01T00:00:01.000001Z"
