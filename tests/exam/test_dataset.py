"""Datasets: what is read, what is refused, and what of a question a role may see."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from deerflow.errors import UsageError
from deerflow.exam.dataset import SUBJECTS, load_dataset, problem_of
from fakes.exams import QUESTIONS, benchmark, dataset_file, letter, needs_benchmark, words


def refusal(path: Path) -> str:
    with pytest.raises(UsageError) as refused:
        load_dataset(path)
    assert refused.value.cure
    return refused.value.message


@needs_benchmark
def test_the_benchmark_is_read() -> None:
    dataset = load_dataset(QUESTIONS)
    assert dataset.ids == tuple(entry["id"] for entry in benchmark())
    assert list(dataset.records().values()) == benchmark()
    assert dataset.sha256 == hashlib.sha256(QUESTIONS.read_bytes()).hexdigest()
    assert list(dict.fromkeys(each.subject for each in dataset.questions)) == list(SUBJECTS)


def test_a_role_sees_neither_key_nor_rubric_nor_notes_nor_source(tmp_path: Path) -> None:
    secrets = {"answer": "the-key", "source": "the-source", "notes": "the-notes"}
    entry = words(question="Why?", **secrets)
    entry["scoring"]["rubric"][0]["criterion"] = "the-criterion"
    [question] = load_dataset(dataset_file(tmp_path, [entry])).questions
    seen = json.dumps(asdict(problem_of(question)))
    assert "Why?" in seen
    assert [word for word in (*secrets.values(), "the-criterion") if word in seen] == []


def test_a_problem_has_the_options(tmp_path: Path) -> None:
    [question] = load_dataset(dataset_file(tmp_path, [letter()])).questions
    problem = problem_of(question)
    assert problem.options == ("A. 3", "B. 4", "C. 5", "D. 6")
    assert (problem.id, problem.kind, problem.subject) == ("math-001", "letter", "math")


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    path = dataset_file(tmp_path, [letter()])
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert load_dataset(path).ids == ("math-001",)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "an id of no subject": (letter("art-001"), "id: "),
    "an id with other digits": (letter("math-٠٠١"), "id: "),
    "an id of another subject": (letter(subject="physics"), "another subject"),
    "an unknown type": (letter(type="essay"), "type: "),
    "an unknown field": (letter(hint="B"), "hint: "),
    "an unknown field of the scoring": (
        letter(scoring={"max_points": 1, "method": "exact", "bonus": 1}),
        "scoring.bonus",
    ),
    "an empty question": (letter(question=""), "question: "),
    "an answer that is a number": (letter(answer=2), "answer: "),
    "no options": (letter(options=None), "needs options"),
    "one option": (letter(options=["A. 3"]), "options: "),
    "an empty option": (letter(options=["A. 3", ""]), "options.1"),
    "options of a short answer": (words(options=["A. 3", "B. 4"]), "no options"),
    "a key of two letters": (letter(key="AB"), "'AB'"),
    "a small key": (letter(key="b"), "'b'"),
    "a key beyond the options": (letter(key="E"), "A to D"),
    "no points": (letter(scoring={"max_points": 0, "method": "exact"}), "scoring.max_points"),
    "points as text": (letter(scoring={"max_points": "1", "method": "exact"}), "max_points"),
    "a rubric that is not there": (
        words(scoring={"max_points": 2, "method": "rubric"}),
        "needs criteria",
    ),
    "an empty rubric": (
        words(scoring={"max_points": 2, "method": "rubric", "rubric": []}),
        "needs criteria",
    ),
    "a rubric of other worth": (
        words(
            scoring={
                "max_points": 2,
                "method": "rubric",
                "rubric": [{"criterion": "x", "points": 3}],
            }
        ),
        "worth 3 points, max_points is 2",
    ),
    "an unknown difficulty": (letter(difficulty="cruel"), "difficulty: "),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_question_is_refused_with_its_place(tmp_path: Path, name: str) -> None:
    entry, told = BAD[name]
    message = refusal(dataset_file(tmp_path, [letter("math-009"), entry]))
    assert f"entry 2 ({entry['id']})" in message
    assert told in message
    assert "entry 1" not in message


@pytest.mark.parametrize("field", ["id", "subject", "question", "answer", "scoring", "source"])
def test_a_missing_field_is_named(tmp_path: Path, field: str) -> None:
    entry = letter()
    del entry[field]
    assert f"{field}: " in refusal(dataset_file(tmp_path, [entry]))


def test_an_id_that_is_used_twice_is_named(tmp_path: Path) -> None:
    message = refusal(dataset_file(tmp_path, [letter(), words(), letter()]))
    assert "math-001: the id is used 2 times" in message


def test_many_problems_are_counted(tmp_path: Path) -> None:
    entries = [letter(f"math-{number:03}", question="") for number in range(15)]
    assert "and 5 more" in refusal(dataset_file(tmp_path, entries))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "line 1, column 1: not JSON"),
        (b"[\n{,}]", "line 2, column 2: not JSON"),
        (b"[]", "at least one question"),
        (b'{"questions": []}', "JSON array"),
        (b'["caf\xe9"]', "not UTF-8 (byte 5)"),
        (b'[{"id": "a", "id": "b"}]', "'id' stands twice"),
        (b"[NaN]", "NaN is no number"),
        (b"[" * 200_000, "nested too deeply"),
        (b"[1" + b"0" * 5000 + b"]", "not JSON"),
    ],
)
def test_a_file_that_is_no_dataset(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "questions.json"
    path.write_bytes(content)
    assert told in refusal(path)


def test_half_of_a_surrogate_pair_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "questions.json"
    path.write_text(json.dumps([letter(question="\ud800")]), encoding="utf-8")
    assert "question: " in refusal(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "cannot be read (No such file" in refusal(tmp_path / "none.json")
