"""`deerflow exam grade` and `exam compare`: what they print, write and refuse."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from deerflow.cli.app import app
from deerflow.exam.contract import ResultFile, write_results
from deerflow.exam.dataset import OWN, load_dataset
from deerflow.exam.sitting import sit
from fakes.examinees import Examinees, plan, write_dataset
from fakes.exams import (
    KEYS,
    QUESTIONS,
    SIX,
    answer,
    dataset_file,
    grader_cases,
    letter,
    needs_benchmark,
    result_file,
    told,
)
from fakes.pages import Page
from fakes.terminal import Desk


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["exam", *map(str, arguments)])


def refused(result: Result) -> str:
    """The message of a refusal, as `main` would print it."""
    assert result.exit_code == 2 and result.stdout == "", result.output
    return result.stderr


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    return dataset_file(tmp_path, SIX)


def results(folder: Path, responses: list[str], **other: Any) -> Path:
    path = folder / "results.json"
    write_results(path, result_file(responses, **other))
    return path


# ---- grade ----


@needs_benchmark
@pytest.mark.parametrize("case", grader_cases("file_cases"), ids=lambda case: case["name"])
def test_the_line_of_the_benchmark(tmp_path: Path, case: dict[str, Any]) -> None:
    path = tmp_path / "results.json"
    file = {"framework": case["name"], "model": "m", "generated_at": "", "results": case["results"]}
    path.write_text(json.dumps(file), encoding="utf-8")
    done = invoke("grade", "--result", path, "--dataset", QUESTIONS)
    assert (done.exit_code, done.stdout, done.stderr) == (0, case["cli_line"] + "\n", "")


def test_strict_prints_both_scores(tmp_path: Path, questions: Path) -> None:
    path = results(tmp_path, ["The answer is B", "B", "C"])
    done = invoke("grade", "--result", path, "--dataset", questions, "--strict")
    assert done.stdout == (
        "deerflow: overall=33.3% (3 questions)\ndeerflow: strict=33.3% (6 questions)\n"
    )


@pytest.mark.parametrize("stray", [letter("math-999"), SIX[0]], ids=["unknown", "repeated"])
def test_strict_refuses_and_names_the_id(
    tmp_path: Path, questions: Path, stray: dict[str, Any]
) -> None:
    file = result_file(["B"])
    path = tmp_path / "results.json"
    write_results(path, file.model_copy(update={"results": [*file.results, answer(stray, "B")]}))
    arguments = ("grade", "--result", path, "--dataset", questions)
    assert stray["id"] in refused(invoke(*arguments, "--strict"))
    assert invoke(*arguments).exit_code == 0


def test_the_reports(tmp_path: Path, questions: Path) -> None:
    folder = tmp_path / "new" / "reports"
    path = results(tmp_path, KEYS, raw=[told("accepted")] * 6, framework="../over/<b>")
    done = invoke("grade", "--result", path, "--dataset", questions, "--report-dir", folder)
    assert done.exit_code == 0, done.output
    [page, text] = sorted(folder.iterdir(), key=lambda file: file.suffix)
    assert done.stdout.splitlines()[1:] == [f"report -> {text}", f"page -> {page}"]
    assert text.read_text(encoding="utf-8").startswith("# ../over/&lt;b&gt; — Results\n")
    assert Page(page.read_text(encoding="utf-8")).safe()
    assert not (tmp_path / "over").exists() and not (tmp_path / "new" / "over").exists()


def test_a_warning_goes_to_stderr(tmp_path: Path, questions: Path) -> None:
    path = results(tmp_path, ["B"], config={"dataset_sha256": "another"})
    done = invoke("grade", "--result", path, "--dataset", questions)
    assert done.stdout == "deerflow: overall=100.0% (1 questions)\n"
    assert "another version of the dataset" in done.stderr


def test_files_that_cannot_be_used(tmp_path: Path, questions: Path) -> None:
    path = results(tmp_path, ["B"])
    none = tmp_path / "none.json"
    assert "none.json" in refused(invoke("grade", "--result", none, "--dataset", questions))
    assert "none.json" in refused(invoke("grade", "--result", path, "--dataset", none))
    assert "no dataset" in refused(invoke("grade", "--result", path, "--dataset", path))
    assert "no result file" in refused(
        invoke("grade", "--result", questions, "--dataset", questions)
    )


def test_an_unknown_judge_is_refused(tmp_path: Path, questions: Path) -> None:
    done = invoke("grade", "--result", "x", "--dataset", questions, "--judge", "coin")
    assert done.exit_code == 2
    assert "rubric" in done.stderr


# ---- a model as judge ----


def judged(folder: Path, questions: Path, turns: list[Any], *more: str) -> tuple[Any, Path]:
    desk = Desk(folder)
    desk.write(turns)
    path = results(folder, ["B", "B", "B", "x = 12", "barter", "barter"])
    given = ["--result", str(path), "--dataset", str(questions), "--judge", "llm", *more]
    return desk.run("exam", "grade", *given), path


def test_a_configured_model_judges(tmp_path: Path, questions: Path) -> None:
    ended, _ = judged(
        tmp_path, questions, [{"text": text} for text in ("1", "1", "0", "1", "0", "0")]
    )
    assert (ended.code, ended.out) == (0, "deerflow: overall=75.0% (6 questions)\n"), ended.err


def test_strict_asks_the_judge_again_about_words(tmp_path: Path, questions: Path) -> None:
    by_strict, by_compatible = ["1", "1", "1", "1"], ["0"] * 6
    replies = [*by_strict, *by_compatible]
    ended, _ = judged(tmp_path, questions, [{"text": text} for text in replies], "--strict")
    assert (ended.code, ended.out) == (
        0,
        "deerflow: overall=50.0% (6 questions)\ndeerflow: strict=100.0% (6 questions)\n",
    ), ended.err


def test_a_judge_that_fails_ends_the_grading(tmp_path: Path, questions: Path) -> None:
    ended, _ = judged(tmp_path, questions, [{"text": "1"}])
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("deerflow: ")


def test_a_judge_that_is_not_configured(tmp_path: Path, questions: Path) -> None:
    ended, _ = judged(tmp_path, questions, [{"text": "1"}], "--model", "scribted")
    assert (ended.code, ended.out) == (2, "")
    assert "'scripted'" in ended.err


# ---- compare ----


def arms(folder: Path) -> list[Path]:
    raw = [told("accepted")] * 6
    files: dict[str, ResultFile] = {
        "a/results.json": result_file(["C"] * 6, raw=raw, config={"arm": "A0"}),
        "b/results.json": result_file(KEYS, raw=raw, config={"arm": "A3"}),
        "b/results-2.json": result_file(KEYS, raw=raw, config={"arm": "A3"}),
        "r/results.json": result_file(KEYS, raw=raw, config={"arm": "R2", "leaky": True}),
    }
    for name, file in files.items():
        write_results(folder / name, file)
    return [folder / name for name in ("a", "b", "r")]


def test_arms_are_compared(tmp_path: Path, questions: Path) -> None:
    done = invoke("compare", *arms(tmp_path), "--dataset", questions)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        "deerflow A0: 0.0% (strict 0.0%, 95 %: 0.0% to 0.0%)",
        "deerflow A3: 83.3% (strict 100.0%, 95 %: 100.0% to 100.0%)",
        "deerflow R2: 83.3% (strict 100.0%, 95 %: 100.0% to 100.0%) saw the key",
        "deerflow A3 over deerflow A0: +100.0 points, won 6, lost 0, p 0.031, Holm 0.031",
    ]


def test_the_comparison_is_written(tmp_path: Path, questions: Path) -> None:
    folder = tmp_path / "reports"
    done = invoke("compare", *arms(tmp_path), "--dataset", questions, "--report-dir", folder)
    [page, text] = sorted(folder.iterdir(), key=lambda file: file.suffix)
    assert done.stdout.splitlines()[-2:] == [f"comparison -> {text}", f"page -> {page}"]
    assert text.stem == page.stem and text.stem.startswith("comparison-2")
    assert text.read_text(encoding="utf-8").startswith("# Framework Comparison\n")
    assert Page(page.read_text(encoding="utf-8")).safe()


def test_a_folder_without_results(tmp_path: Path, questions: Path) -> None:
    (tmp_path / "empty").mkdir()
    message = refused(invoke("compare", tmp_path / "empty", "--dataset", questions))
    assert "holds no results.json" in message


# ---- from an exam to its comparison ----


def test_what_exams_leave_is_compared(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "questions.json")
    for arm, repeat in (("A0", 1), ("A5", 2)):
        settings = plan(tmp_path / arm, dataset, arm=arm, repeat=repeat)
        asyncio.run(sit(settings, Examinees(), Examinees(), lambda *told: None))
    folder = tmp_path / "reports"
    done = invoke(
        "compare", tmp_path / "A0", tmp_path / "A5", "--dataset", dataset, "--report-dir", folder
    )
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    assert done.stdout.startswith("deerflow A0: ")
    assert "deerflow A5 over deerflow A0: +" in done.stdout
    written = next(folder.glob("*.md")).read_text(encoding="utf-8")
    assert "| deerflow A5 | 2 |" in written
    assert "## Validators" in written and "## Confidence, stated (deerflow A5)" in written

    result = tmp_path / "A5" / "results.json"
    done = invoke("grade", "--result", result, "--dataset", dataset, "--report-dir", folder)
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    written = (folder / "deerflow.md").read_text(encoding="utf-8")
    assert "| accepted |" in written and "| resolver_error |" in written
    assert "(helpful)" in written and "model_unavailable" in written


def test_our_own_questions_are_the_dataset_when_none_is_given(tmp_path: Path) -> None:
    question = load_dataset(OWN).questions[0]
    record = answer(question.model_dump(), question.answer)
    path = results(tmp_path, [])
    write_results(path, result_file([]).model_copy(update={"results": [record]}))
    done = invoke("grade", "--result", path, "--strict")
    assert done.stdout == (
        f"deerflow: overall=100.0% (1 questions)\ndeerflow: strict={1 / 128:.1%} (128 questions)\n"
    )
    assert invoke("compare", path).stdout.startswith("deerflow: 100.0% (strict 0.8%")
