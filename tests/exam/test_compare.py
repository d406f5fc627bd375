"""Arms held against each other: repeats, pairs, flips, and the arms that saw the key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deerflow.errors import UsageError
from deerflow.exam.compare import Arm, compare, load_arm, named, result_files
from deerflow.exam.contract import write_results
from deerflow.exam.graded import Grading, grade_file
from deerflow.exam.statistics import mcnemar
from fakes.exams import KEYS, READING, letter, result_file, six, told

WRONG = ["C", "C", "C", "x = 13", "no", "no"]


def mixed(right: str) -> list[str]:
    """Responses to SIX: the key where `right` has a 1."""
    return [KEYS[n] if sign == "1" else WRONG[n] for n, sign in enumerate(right)]


async def arm(name: str, *repeats: str, **other: Any) -> Arm:
    raw = [told("accepted") for _ in KEYS]
    files = [result_file(mixed(right), raw=raw, **other) for right in repeats]
    return Arm(name, tuple([await grade_file(file, six(), Grading(READING)) for file in files]))


async def test_a_pair() -> None:
    one, other = await arm("one", "110000"), await arm("other", "011110")
    found = compare(six(), [one, other], seed=1)
    [pair] = found.pairs
    assert (pair.one, pair.other) == ("one", "other")
    assert pair.gained == ("physics-001", "math-005", "history-001")
    assert pair.lost == ("math-001",)
    assert pair.p == pair.adjusted == mcnemar(3, 1)
    assert pair.difference.value == pytest.approx(2 / 6)
    assert pair.difference.low <= pair.difference.value <= pair.difference.high
    assert (found.wins_needed, found.detectable) == (6, pytest.approx(0.964, abs=0.001))


async def test_pairs_are_corrected_together() -> None:
    arms = [await arm("a", "000000"), await arm("b", "111111"), await arm("c", "111110")]
    found = compare(six(), arms)
    assert [(pair.one, pair.other) for pair in found.pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert [pair.p for pair in found.pairs] == [0.03125, 0.0625, 1.0]
    assert [pair.adjusted for pair in found.pairs] == [3 * 0.03125, 2 * 0.0625, 1.0]


async def test_most_repeats_decide() -> None:
    one = await arm("one", "110000", "100000", "101000")
    assert [name for name, right in one.right().items() if right] == ["math-001"]
    assert one.shares()["math-002"] == [1.0, 0.0, 0.0]
    assert one.mean == pytest.approx((1 + 1 / 3 + 1 / 3) / 6)
    assert (one.correct, one.fully_right.value) == (5, 1 / 6)
    assert one.spent.total == 3 * 6 * 200
    assert one.confusion.total == 18
    assert len(one.confidence("stated")) == 18
    half = await arm("half", "10", "00")
    assert not half.right()["math-001"]


async def test_an_arm_that_saw_the_key_stands_apart() -> None:
    arms = [
        await arm("a", "000000"),
        await arm("key", "111111", config={"leaky": True}),
        await arm("b", "111100"),
    ]
    found = compare(six(), arms)
    assert [each.name for each in found.arms] == ["a", "b"]
    assert [each.name for each in found.apart] == ["key"]
    assert [(pair.one, pair.other) for pair in found.pairs] == [("a", "b")]
    assert found.means["key"].value == found.means["key"].high == 1.0
    assert all(0 <= mean.low <= mean.high <= 1 for mean in found.means.values())


async def test_the_seed_decides() -> None:
    arms = [await arm("a", "101000"), await arm("b", "110100")]
    assert compare(six(), arms, seed=3).pairs == compare(six(), arms, seed=3).pairs


def test_files_of_a_folder_in_the_order_of_their_repeats(tmp_path: Path) -> None:
    for name in ("results-10.json", "results.json", "results-2.json", "results-x.json", "a.json"):
        (tmp_path / name).write_text("", encoding="utf-8")
    names = [path.name for path in result_files(tmp_path)]
    assert names == ["results.json", "results-2.json", "results-10.json"]
    assert result_files(tmp_path / "a.json") == [tmp_path / "a.json"]
    for empty in (tmp_path / "none", tmp_path):
        for path in tmp_path.glob("results*"):
            path.unlink()
        with pytest.raises(UsageError, match=r"no results\.json"):
            result_files(empty)


async def test_a_folder_is_an_arm(tmp_path: Path) -> None:
    write_results(tmp_path / "results.json", result_file(mixed("100000"), config={"arm": "A0"}))
    write_results(tmp_path / "results-2.json", result_file(mixed("110000"), config={"arm": "A0"}))
    found = await load_arm(tmp_path, six(), Grading(READING))
    assert (found.name, found.model, len(found.repeats)) == ("deerflow A0", "m", 2)
    assert found.repeats[1].right["math-002"]


async def test_a_folder_of_several_arms_is_refused(tmp_path: Path) -> None:
    write_results(tmp_path / "results.json", result_file([], config={"arm": "A0"}))
    write_results(tmp_path / "results-2.json", result_file([], config={"arm": "A1"}))
    with pytest.raises(UsageError, match="deerflow A0 .*, deerflow A1"):
        await load_arm(tmp_path, six(), Grading(READING))


async def test_a_file_that_cannot_be_graded_strictly_is_named(tmp_path: Path) -> None:
    file = result_file(["B"])
    stray = file.results[0].model_copy(update={"question_id": letter("math-999")["id"]})
    write_results(
        tmp_path / "results.json", file.model_copy(update={"results": [*file.results, stray]})
    )
    with pytest.raises(UsageError, match=r"results\.json: .*math-999"):
        await load_arm(tmp_path, six(), Grading(READING))


async def test_equal_names_are_told_apart(tmp_path: Path) -> None:
    arms = [await arm("same", "1"), await arm("own", "1"), await arm("same", "1")]
    places = [tmp_path / name for name in ("x", "y", "z")]
    assert [each.name for each in named(arms, places)] == ["same (x)", "own", "same (z)"]
    again = named([arms[0], arms[0]], [places[0], places[0]])
    assert [each.name for each in again] == ["same (x)", "same (x) 2"]
