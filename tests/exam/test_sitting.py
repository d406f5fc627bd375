"""Exams end whole: killed after any event, with any number of workers, within any budget."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deerflow.errors import UsageError
from deerflow.exam.contract import check_schema, read_results
from deerflow.exam.dataset import load_dataset
from deerflow.exam.journal import Journal
from deerflow.exam.sitting import ExamPlan, sit
from deerflow.exam.sitting import settings as settings_of
from fakes.examinees import Examinees, killed_exams, plan, question, sat, write_dataset

STATES = {"accepted", "validator_error", "resolver_error", "exhausted"}


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "questions.json")


def results(folder: Path) -> dict[str, Any]:
    """The result file without its times."""
    found = json.loads((folder / "results.json").read_text("utf-8"))
    for answer in found["results"]:
        answer.pop("latency_ms")
    return {key: value for key, value in found.items() if key != "generated_at"}


def settings(exam: ExamPlan) -> dict[str, Any]:
    """What the journal of an exam begins with."""
    return settings_of(exam, load_dataset(exam.dataset), checked=True)


def seconds_removed(found: Any) -> Any:
    if isinstance(found, dict):
        return {k: seconds_removed(v) for k, v in found.items() if k not in ("seconds", "ms")}
    return [seconds_removed(each) for each in found] if isinstance(found, list) else found


async def test_every_question_ends_with_a_status_in_the_dataset_s_order(
    tmp_path: Path, dataset: Path
) -> None:
    done = await sat(plan(tmp_path / "out", dataset))
    (statuses,) = done.statuses
    wanted = [question(number)["id"] for number in range(20)]
    assert [status.question_id for status in statuses] == wanted
    assert {status.state for status in statuses} == STATES
    file = read_results(done.results[0])
    assert [answer.question_id for answer in file.results] == wanted
    check_schema(json.loads(done.results[0].read_text("utf-8")))
    report = done.report.read_text("utf-8")
    assert all(state in report for state in STATES)


async def test_one_worker_and_sixteen_give_the_same_file(tmp_path: Path, dataset: Path) -> None:
    await sat(plan(tmp_path / "one", dataset, workers=1))
    await sat(plan(tmp_path / "many", dataset, workers=16))
    one, many = (seconds_removed(results(tmp_path / name)) for name in ("one", "many"))
    assert one == many


def test_an_exam_killed_after_any_event_goes_on_as_if_nothing_had_been(
    tmp_path: Path, dataset: Path, scale: Callable[[int, int], int]
) -> None:
    """In the long form after every single event of a 20-question exam."""
    asyncio.run(sat(plan(tmp_path / "whole", dataset)))
    whole = results(tmp_path / "whole")
    journal = (tmp_path / "whole" / "journal.jsonl").read_text("utf-8").splitlines()
    counts = list(range(1, len(journal) + 1, scale(7, 1)))
    assert len(counts) > 10
    ends = killed_exams(tmp_path, dataset, counts)
    assert ends == [-signal.SIGKILL] * len(counts)
    for count in counts:
        folder = tmp_path / str(count)
        assert results(folder) == whole, count
        calls = Counter((folder / "calls.jsonl").read_text("utf-8").splitlines())
        lines = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
        assert [line["n"] for line in lines] == list(range(len(lines)))
        finished = {
            json.dumps([e["question_id"], e["role"], e["step"], e["attempt"], e["number"]])
            for e in lines[:count]
            if e["type"] == "reply"
        }
        again = {call for call, times in calls.items() if times > 1}
        assert not again & finished, count


async def test_a_torn_last_line_is_cut_away(tmp_path: Path, dataset: Path) -> None:
    exam = plan(tmp_path / "out", dataset)
    await sat(exam)
    whole, path = results(exam.out), exam.out / "journal.jsonl"
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join(lines[:9]) + b"\n" + lines[9][:20])
    await sat(exam)
    assert results(exam.out) == whole
    assert all(json.loads(line) for line in path.read_text("utf-8").splitlines())


@pytest.mark.parametrize("change", [{"arm": "A2"}, {"seed": 5}, {"budget": 7}, {"limit": 3}])
async def test_another_exam_is_refused_the_folder(
    tmp_path: Path, dataset: Path, change: dict[str, Any]
) -> None:
    await sat(plan(tmp_path / "out", dataset))
    before = (tmp_path / "out" / "journal.jsonl").read_bytes()
    with pytest.raises(UsageError, match=next(iter(change))):
        await sat(plan(tmp_path / "out", dataset, **change))
    assert (tmp_path / "out" / "journal.jsonl").read_bytes() == before


async def test_a_file_that_is_no_journal_stays_as_it_is(tmp_path: Path, dataset: Path) -> None:
    (tmp_path / "journal.jsonl").write_text("my notes\n", encoding="utf-8")
    with pytest.raises(UsageError, match="line 1"):
        await sat(plan(tmp_path, dataset))
    assert (tmp_path / "journal.jsonl").read_text("utf-8") == "my notes\n"


async def test_workers_change_nothing_that_makes_another_exam(
    tmp_path: Path, dataset: Path
) -> None:
    await sat(plan(tmp_path / "out", dataset, workers=2))
    await sat(plan(tmp_path / "out", dataset, workers=9))


async def test_each_repeat_has_its_file(tmp_path: Path, dataset: Path) -> None:
    done = await sat(plan(tmp_path / "out", dataset, repeat=3, limit=4))
    assert [path.name for path in done.results] == [
        "results.json",
        "results-2.json",
        "results-3.json",
    ]
    assert [len(statuses) for statuses in done.statuses] == [4, 4, 4]


async def test_a_limit_takes_from_every_subject(tmp_path: Path, dataset: Path) -> None:
    done = await sat(plan(tmp_path / "out", dataset, limit=4))
    assert len({status.question_id.split("-")[0] for status in done.statuses[0]}) == 4


async def test_a_budget_leaves_every_question_its_first_answer(
    tmp_path: Path, dataset: Path
) -> None:
    """Calls cost 15 tokens here; the budget has room for 20 answers and a few more calls."""

    class Frugal(Examinees):
        """Uses as many tokens as a request is expected to."""

        async def ask(self, ask: Any) -> Any:
            reply = await super().ask(ask)
            reply.tokens.input = int(len(ask.system + ask.prompt) / 3) + 285
            return reply

    exam = plan(tmp_path / "tight", dataset, workers=1, budget=0)
    await sit(exam, Frugal(), Examinees())
    spent = sum(
        sum(each["total"] for each in answer["raw"]["tokens"].values())
        for answer in results(exam.out)["results"]
    )
    tight = plan(tmp_path / "tighter", dataset, workers=1, budget=spent // 2)
    done = await sit(tight, Frugal(), Examinees())
    states = Counter(status.state for status in done.statuses[0])
    assert states["budget_exceeded"] > 0
    answered = [s.final_response for s in done.statuses[0] if s.state != "resolver_error"]
    assert all(answered)


async def test_a_fault_of_ours_ends_its_question_alone(tmp_path: Path, dataset: Path) -> None:
    class Broken(Examinees):
        """Fails at one question in a way that nobody foresaw."""

        async def ask(self, ask: Any) -> Any:
            if ask.problem.id == "english-002":
                raise ZeroDivisionError
            return await super().ask(ask)

    done = await sit(plan(tmp_path / "out", dataset), Broken(), Examinees())
    (status,) = [s for s in done.statuses[0] if s.question_id == "english-002"]
    assert (status.state, status.final_response) == ("resolver_error", "")
    assert len(done.statuses[0]) == 20


async def test_an_unknown_arm_is_refused_before_anything_is_written(
    tmp_path: Path, dataset: Path
) -> None:
    with pytest.raises(UsageError, match="A0, A1"):
        await sat(plan(tmp_path / "out" / "deep", dataset, arm="A9"))
    assert not (tmp_path / "out" / "deep" / "journal.jsonl").exists()


async def test_two_processes_do_not_sit_the_same_exam(tmp_path: Path, dataset: Path) -> None:
    exam = plan(tmp_path / "out", dataset)
    await sat(exam)
    journal = Journal.open(exam.out / "journal.jsonl", settings(exam))
    try:
        with pytest.raises(UsageError, match="Another process"):
            await sat(exam)
    finally:
        journal.close()
    await sat(exam)


@pytest.mark.parametrize("workers", [1, 4, 16])
async def test_a_budget_for_first_answers_gives_each_question_one(
    tmp_path: Path, dataset: Path, workers: int
) -> None:
    """However many are asked at once, none is refused for what the others only hold.

    The two questions that the model fails at need room as well, and pay nothing.
    """

    class Weighed(Examinees):
        """Uses a little less than a request is expected to."""

        async def ask(self, ask: Any) -> Any:
            reply = await super().ask(ask)
            reply.tokens.input = int(len(ask.system + ask.prompt) / 3) + 250
            return reply

    whole = await sit(plan(tmp_path / "whole", dataset, arm="A0", workers=1), Weighed())
    spent = sum(
        sum(each["total"] for each in status.raw["tokens"].values()) for status in whole.statuses[0]
    )
    exam = plan(tmp_path / "tight", dataset, arm="A0", workers=workers, budget=spent + 1_500)
    (statuses,) = (await sit(exam, Weighed())).statuses
    assert "budget_exceeded" not in {status.state for status in statuses}
