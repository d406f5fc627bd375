"""`deerflow exam grade` and `exam compare`: reads result files, prints scores, writes reports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from deerflow.agent.record import visible_text
from deerflow.cli import output
from deerflow.cli.exits import ANSWERED
from deerflow.cli.source import read
from deerflow.exam.arms import ARMS
from deerflow.exam.compare import Arm, Comparison, compare, load_arm, named
from deerflow.exam.contract import read_results, replace_file
from deerflow.exam.dataset import load_dataset
from deerflow.exam.graded import Graded, Grading, grade_file
from deerflow.exam.graders.judge import Judge
from deerflow.exam.graders.strict import Reading
from deerflow.exam.report import efforts, html, markdown, several, single
from deerflow.exam.report.sections import Report
from deerflow.exam.report.text import file_name, p_value, percent, percents, points
from deerflow.exam.simulation import World, simulate
from deerflow.models.catalog import ModelCatalog
from deerflow.models.resilience import Resilience
from deerflow.verify.answers import agree, declared_letter
from deerflow.wiring.parts import models_of

READING = Reading(agree, declared_letter)


@dataclass(frozen=True, slots=True)
class Judging:
    """Who grades answers in words.

    Attributes:
        by_model: a model does; else the rubric's keywords.
        model: configured name, None for the default.
        config: configuration file, None for the usual places.
    """

    by_model: bool = False
    model: str | None = None
    config: Path | None = None


def grade_one(
    result: Path, dataset: Path, judging: Judging, *, strict: bool, report_dir: Path | None
) -> int:
    """Grade a result file and print its score; gives the exit code.

    Raises:
        DeerFlowError: a file cannot be used, the judge fails, or the report cannot be written.
    """
    questions, file = load_dataset(dataset), read_results(result)

    async def graded() -> Graded:
        async with _judge(judging) as judge:
            hardened = judge if strict else None
            return await grade_file(file, questions, Grading(READING, judge, hardened, strict))

    found = asyncio.run(graded())
    name, scores, strictly = output.one_line(file.framework), found.scores, found.strict_scores
    output.say(f"{name}: overall={percent(scores.overall)} ({scores.count} questions)")
    if strict and strictly is not None:
        output.say(f"{name}: strict={percent(strictly.overall)} ({strictly.count} questions)")
    for warning in single.warnings_of(found):
        output.note(f"deerflow: {warning}")
    if report_dir is not None:
        _write(single.report_of(found), report_dir / file_name(file.framework), "report")
    return ANSWERED


def compare_all(
    places: Sequence[Path], dataset: Path, judging: Judging, *, report_dir: Path | None, seed: int
) -> int:
    """Compare arms and print what can be concluded; gives the exit code.

    Raises:
        DeerFlowError: as `grade_one`.
    """
    questions = load_dataset(dataset)

    async def arms() -> list[Arm]:
        async with _judge(judging) as judge:
            grading = Grading(READING, judge, judge, must_be_strict=True)
            return [await load_arm(place, questions, grading) for place in places]

    found = compare(questions, named(asyncio.run(arms()), places), seed=seed)
    _tell(found)
    if report_dir is not None:
        now = datetime.now(UTC)
        report = several.report_of(found, now.isoformat(timespec="seconds"))
        _write(report, report_dir / f"comparison-{now:%Y%m%dT%H%M%SZ}", "comparison")
    return ANSWERED


def _tell(found: Comparison) -> None:
    for arm in (*found.arms, *found.apart):
        mean = found.means[arm.name]
        output.say(
            f"{output.one_line(arm.name)}: {percent(arm.compat)} "
            f"(strict {percent(mean.value)}, 95 %: {percents(mean)})"
            + (" saw the key" if arm.leaky else "")
            + _took(arm)
        )
    for pair in found.pairs:
        output.say(
            f"{output.one_line(pair.other)} over {output.one_line(pair.one)}: "
            f"{points(pair.difference.value)} points, won {len(pair.gained)}, "
            f"lost {len(pair.lost)}, p {p_value(pair.p)}, Holm {p_value(pair.adjusted)}"
        )


def _took(arm: Arm) -> str:
    """What is told of an arm's effort."""
    took, spent = arm.effort, arm.spent
    if not took.lines and took.seconds is None:
        return ""
    told = [f"{took.lines} lines of code"] if took.lines else []
    told += [f"{spent.calls:,} calls, {spent.total:,} tokens"] if spent.calls else []
    told += [f"wall {efforts.seconds(took.seconds)} s"] if took.seconds is not None else []
    return f"; {', '.join(told)}"


def _write(report: Report, stem: Path, what: str) -> None:
    """Both forms of a report; `stem` is their path without an ending."""
    for ending, render, name in (
        (".md", markdown.render, what),
        (".html", html.render, "page"),
    ):
        path = stem.with_name(stem.name + ending)
        replace_file(path, render(report).encode("utf-8"))
        output.say(f"{name} -> {path}")


@asynccontextmanager
async def _judge(judging: Judging) -> AsyncGenerator[Judge | None]:
    """A model that is asked one thing at a time, without any conversation; None for keywords."""
    if not judging.by_model:
        yield None
        return
    loaded, environ = read(judging.config)
    models, found = await models_of(loaded, environ)
    if found:
        output.note(f"deerflow: {found}")
    catalog = ModelCatalog(models, environ=environ, home=loaded.home)
    name = judging.model or catalog.default
    catalog.spec(name)
    resilience = Resilience(
        loaded.config.llm_call, loaded.config.circuit_breaker, models=len(models)
    )

    async def ask(system: str, prompt: str) -> str:
        sent = [*([("system", system)] if system else []), ("human", prompt)]

        async def attempt(model: str) -> str:
            return visible_text(await catalog.get(model).ainvoke(sent))

        return await resilience.call(attempt, [name])

    try:
        yield ask
    finally:
        await catalog.aclose()


def simulate_all(out: Path, *, questions: int, repeat: int, seed: int) -> int:
    """Sit simulated exams under all arms that do not show the key, and compare them.

    Raises:
        DeerFlowError: the folder is of another simulation or cannot be written.
    """
    arms = [name for name, arm in ARMS.items() if not arm.leaky]
    folders = asyncio.run(
        simulate(World(), arms, out, questions=questions, repeat=repeat, seed=seed)
    )
    output.say(f"Scripted roles: {', '.join(f'{k} {v:g}' for k, v in asdict(World()).items())}.")
    dataset = out / "questions.json"
    return compare_all(folders, dataset, Judging(), report_dir=out, seed=seed)
