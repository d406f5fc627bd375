"""Result files: read laxly, checked strictly, replaced at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deerflow.errors import RecordError, StorageError, UsageError
from deerflow.exam.contract import (
    ResultFile,
    check_schema,
    load_results,
    read_results,
    write_results,
)
from fakes.exams import answer, grader_cases, letter

CASES = grader_cases("load_cases")


def takes(check: Any, document: object) -> bool:
    try:
        check(document)
    except UsageError:
        return False
    return True


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_both_verdicts_of_the_benchmark(case: dict[str, Any]) -> None:
    assert takes(load_results, case["document"]) == case["grader_loads"]
    assert takes(check_schema, case["document"]) == case["schema_valid"]


def file(**other: Any) -> ResultFile:
    given = {
        "framework": "deerflow",
        "model": "m",
        "generated_at": "2026-01-01T00:00:00Z",
        "config": {"arm": "A3"},
        "results": [answer(letter(), "B", reasoning="四", raw={"state": "accepted"})],
    }
    return ResultFile(**{**given, **other})


def document(**other: Any) -> dict[str, Any]:
    return {**file().model_dump(), **other}


@pytest.mark.parametrize("field", ["framework", "model", "generated_at", "results"])
def test_a_field_without_which_nothing_is_loaded(field: str) -> None:
    given = document()
    del given[field]
    assert not takes(load_results, given)
    assert not takes(check_schema, given)


@pytest.mark.parametrize(
    ("other", "loads", "valid"),
    [
        ({"framework": ""}, True, False),
        ({"framework": 7}, False, False),
        ({"extra": 1}, True, False),
        ({"results": []}, True, True),
        ({"results": {}}, False, False),
        ({"generated_at": "yesterday"}, True, True),
        ({"config": None}, False, False),
    ],
)
def test_the_document(other: dict[str, Any], loads: bool, valid: bool) -> None:
    assert takes(load_results, document(**other)) == loads
    assert takes(check_schema, document(**other)) == valid


def test_one_bad_answer_refuses_the_file_and_is_named(tmp_path: Path) -> None:
    given = document()
    given["results"] = [*given["results"], {**given["results"][0], "response": None}]
    path = tmp_path / "results.json"
    path.write_text(json.dumps(given), encoding="utf-8")
    with pytest.raises(UsageError, match=r"results\.json.*\n  results\.1\.response"):
        read_results(path)


def test_what_was_written_is_read_and_valid(tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.json"
    write_results(path, file())
    text = path.read_text(encoding="utf-8")
    assert text.startswith('{\n  "framework": "deerflow",') and text.endswith("}\n")
    assert '"四"' in text
    check_schema(json.loads(text))
    assert read_results(path) == file()


def test_a_file_is_replaced_whole_and_leaves_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write_results(path, file())
    before = path.stat().st_ino
    write_results(path, file(model="other"))
    assert read_results(path).model == "other"
    assert path.stat().st_ino != before
    assert [each.name for each in tmp_path.iterdir()] == ["results.json"]


@pytest.mark.parametrize("raw", [{"cost": float("nan")}, {"at": object()}])
def test_what_json_cannot_say_leaves_the_old_file(tmp_path: Path, raw: dict[str, Any]) -> None:
    path = tmp_path / "results.json"
    write_results(path, file())
    with pytest.raises(RecordError):
        write_results(path, file(results=[answer(letter(), "B", raw=raw)]))
    assert read_results(path) == file()


def test_a_file_that_breaks_the_contract_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="latency_ms"):
        write_results(tmp_path / "r.json", file(results=[answer(letter(), "B", latency_ms=-1)]))
    assert list(tmp_path.iterdir()) == []


def test_half_of_a_surrogate_pair_stays_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write_results(path, file(config={"note": "\ud83d"}))
    assert json.loads(path.read_text(encoding="utf-8"))["config"] == {"note": "\ud83d"}


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(StorageError, match="cannot be written"):
        write_results(tmp_path / "file" / "results.json", file())
