"""`deerflow exam run`: sits an exam with configured models and shows how far it is."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from deerflow.cli import output
from deerflow.cli.exits import ANSWERED, STOPPED
from deerflow.cli.log import log_to_file
from deerflow.cli.source import read
from deerflow.cli.stop import Stop
from deerflow.exam.asking import ModelAsker
from deerflow.exam.dataset import load_dataset
from deerflow.exam.journal import started
from deerflow.exam.lessons import lessons_of, remember
from deerflow.exam.sitting import JOURNAL, ExamPlan, Sat, chosen, sit
from deerflow.memory.protocol import MemoryManager
from deerflow.models.resilience import Resilience
from deerflow.runtime.request import LOCAL_USER
from deerflow.verify.checks import CodeChecker
from deerflow.verify.messages import Problem, QuestionStatus
from deerflow.verify.protocol import RoleName
from deerflow.verify.running import SandboxPython
from deerflow.wiring.harness import Harness, open_harness

CHECKS = "exam-checks"
"""Thread whose sandbox runs the checks of an exam."""


@dataclass(frozen=True, slots=True)
class ExamOptions:
    """The command line of `deerflow exam run`; models that are None are the default one."""

    plan: ExamPlan
    config: Path | None = None
    model: str | None = None
    validator_model: str | None = None
    memory: bool = False


def run_exam(options: ExamOptions) -> int:
    """Sit the exam; gives the exit code.

    Raises:
        DeerFlowError: settings, dataset or folder cannot be used.
    """
    return asyncio.run(_run(options, Stop()))


async def _run(options: ExamOptions, stop: Stop) -> int:
    stop.listen()
    loaded, environ = read(options.config)
    for warning in loaded.warnings:
        output.note(f"deerflow: {warning}")
    with log_to_file(loaded.home, loaded.config.log_level):
        try:
            async with open_harness(loaded, environ) as harness:
                if harness.found:
                    output.note(f"deerflow: {harness.found}")
                sat = await _sit(harness, options)
        except asyncio.CancelledError:
            output.note("Stopped; all is saved. The same command goes on from here.")
            return STOPPED
    _tell(sat)
    return ANSWERED


async def _sit(harness: Harness, options: ExamOptions) -> Sat:
    catalog, config = harness.catalog, harness.loaded.config
    model = options.model or catalog.default
    validator = options.validator_model or model
    catalog.spec(model)
    catalog.spec(validator)
    plan = replace(options.plan, model=model, validator_model=validator)
    memory = harness.memory if options.memory else None
    if memory is not None:
        plan = replace(plan, lessons=await _lessons(plan, memory))
    models: Mapping[RoleName, str] = {
        "resolver": model, "validator": validator, "adjudicator": validator,
    }  # fmt: skip
    resilience = Resilience(config.llm_call, config.circuit_breaker, models=len(catalog.names()))
    asker = ModelAsker(catalog, resilience, models)
    folders = harness.folders(LOCAL_USER, CHECKS)
    checker = CodeChecker(SandboxPython.of(harness.provider, CHECKS, folders))
    dataset = await asyncio.to_thread(load_dataset, plan.dataset)
    questions = chosen(dataset, plan.limit)
    with ExamProgress(Counter(question.subject for question in questions), plan.repeat) as shown:
        sat = await sit(plan, asker, checker, told=shown.told)
    if memory is not None:
        for statuses in sat.statuses:
            await remember(memory, LOCAL_USER, questions, statuses)
    return sat


async def _lessons(plan: ExamPlan, memory: MemoryManager) -> dict[str, tuple[str, ...]]:
    """Those that the exam was begun with, else what is remembered now."""
    begun = await asyncio.to_thread(started, plan.out / JOURNAL)
    if begun is None:
        return await lessons_of(memory, LOCAL_USER)
    kept: dict[str, list[str]] = begun.get("lessons") or {}
    return {subject: tuple(each) for subject, each in kept.items()}


def _tell(sat: Sat) -> None:
    statuses = [status for each in sat.statuses for status in each]
    states = Counter(status.state for status in statuses)
    output.say(f"{states['accepted']} of {len(statuses)} answers accepted.")
    for state, count in states.most_common():
        if state != "accepted":
            output.say(f"  {state}: {count}")
    for path in (*sat.results, sat.report):
        output.say(f"  {path}")


class ExamProgress:
    """A bar for each subject on a terminal's stderr; a line for each question elsewhere.

    Args:
        questions: how many by subject.
        repeats: of the exam.
    """

    def __init__(self, questions: Mapping[str, int], repeats: int) -> None:
        self._live = sys.stderr.isatty()
        self._total = sum(questions.values()) * repeats
        self._ended = 0
        self._accepted: Counter[str] = Counter()
        self._progress = Progress(
            TextColumn("{task.description:<10}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[accepted]} accepted"),
            TimeElapsedColumn(),
            console=Console(stderr=True, highlight=False, markup=False),
            disable=not self._live,
        )
        self._bars = {
            subject: self._progress.add_task(subject, total=count * repeats, accepted=0)
            for subject, count in questions.items()
        }

    def __enter__(self) -> ExamProgress:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def told(self, repeat: int, problem: Problem, status: QuestionStatus) -> None:
        """A question has ended."""
        self._ended += 1
        self._accepted[problem.subject] += status.accepted
        bar, accepted = self._bars[problem.subject], self._accepted[problem.subject]
        self._progress.update(bar, advance=1, accepted=accepted)
        if not self._live:
            again = f" (repeat {repeat})" if repeat > 1 else ""
            output.note(f"[{self._ended}/{self._total}] {problem.id}{again}: {status.state}")
