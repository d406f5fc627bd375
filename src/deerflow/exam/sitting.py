"""One exam from its settings to its files; killed at any moment, the same settings go on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from deerflow import __version__
from deerflow.errors import UsageError
from deerflow.exam.arms import ARMS
from deerflow.exam.budget import Budget, BudgetedAsker
from deerflow.exam.dataset import Dataset, Question, load_dataset, problem_of
from deerflow.exam.guidance import Guidance
from deerflow.exam.journal import Journal, RecordedAsker, RecordedChecker, digest
from deerflow.exam.orchestrator import Orchestrator
from deerflow.exam.summary import summary
from deerflow.exam.writer import result_file, result_path, write
from deerflow.models.usage import Tokens
from deerflow.verify import forms, prompts
from deerflow.verify.loop import Loop
from deerflow.verify.messages import Problem, QuestionStatus
from deerflow.verify.protocol import Asker, Checker

JOURNAL = "journal.jsonl"
REPORT = "report.md"

Told = Callable[[int, Problem, QuestionStatus], None]


@dataclass(frozen=True, slots=True)
class ExamPlan:
    """The settings of an exam.

    Attributes:
        dataset: a JSON file of questions.
        out: folder of its files.
        model: configured name of the resolver's model.
        validator_model: of validator and adjudicator.
        arm: name in ARMS.
        repeat: how often each question is asked.
        workers: questions at once; changes nothing but the time.
        budget: tokens in all, 0 for no limit.
        seed: of everything that is drawn.
        limit: only so many questions, 0 for all; spread over the subjects.
        lessons: what earlier exams taught, by subject.
        simulated: error rates of a simulation, {} for an exam of models.
    """

    dataset: Path
    out: Path
    model: str
    validator_model: str
    arm: str = "A5"
    repeat: int = 1
    workers: int = 4
    budget: int = 0
    seed: int = 0
    limit: int = 0
    lessons: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    simulated: dict[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class Sat:
    """What an exam left: its result files, its report, and all statuses by repeat."""

    results: tuple[Path, ...]
    report: Path
    statuses: tuple[tuple[QuestionStatus, ...], ...]


async def sit(
    plan: ExamPlan,
    asker: Asker,
    checker: Checker | None = None,
    told: Told = lambda repeat, problem, status: None,
    noted: Callable[[int], None] = lambda count: None,
) -> Sat:
    """Ask every question until it has a status, then write results and report.

    Args:
        plan: the settings.
        asker: asks the roles.
        checker: checks by code, for arms that want it; None when there is no sandbox.
        told: hears of each ended question: repeat, problem, status.
        noted: hears of each event in the journal: how many there are.

    Raises:
        UsageError: an unknown arm, a bad dataset, or an --out folder of other settings.
        StorageError: the folder cannot be written.
    """
    if plan.arm not in ARMS:
        raise UsageError(f"There is no arm {plan.arm!r}.", cure=f"Take one of {', '.join(ARMS)}.")
    dataset = await asyncio.to_thread(load_dataset, plan.dataset)
    questions = chosen(dataset, plan.limit)
    config = settings(plan, dataset, checked=checker is not None)
    journal = await asyncio.to_thread(Journal.open, plan.out / JOURNAL, config, noted)
    try:
        sitting = _Sitting(plan, questions, journal, asker, checker)
        fresh, begun = len(journal.events) == 1, time.monotonic()
        repeats = [await sitting.repeat(n, told) for n in range(1, plan.repeat + 1)]
        seconds = time.monotonic() - begun if fresh else None
        paths = await asyncio.to_thread(sitting.write, repeats, config)
        if not any(event["type"] == "finished" for event in journal.events):
            await journal.append("finished", seconds=seconds, workers=plan.workers)
    finally:
        await asyncio.to_thread(journal.close)
    return Sat(paths, plan.out / REPORT, tuple(tuple(each) for each in repeats))


def settings(plan: ExamPlan, dataset: Dataset, *, checked: bool) -> dict[str, Any]:
    """All that answers depend on; an exam goes on only when it is equal."""
    arm = ARMS[plan.arm]
    guidance = Guidance(plan.lessons)
    return {
        "version": __version__,
        "dataset_sha256": dataset.sha256,
        "model": plan.model,
        "validator_model": plan.validator_model,
        "arm": plan.arm,
        "leaky": arm.leaky,
        "policy": asdict(arm.policy),
        "repeat": plan.repeat,
        "budget": plan.budget,
        "seed": plan.seed,
        "limit": plan.limit,
        "checks": checked and arm.policy.code_check,
        "enable_validator": arm.policy.validate,
        "prompts_sha256": digest(
            Path(prompts.__file__).read_text("utf-8"), Path(forms.__file__).read_text("utf-8")
        ),
        "skills_sha256": digest(*guidance.texts.values()),
        "lessons": {subject: list(each) for subject, each in plan.lessons.items()},
        **({"simulated": plan.simulated} if plan.simulated else {}),
    }


class _Sitting:
    """An exam under way."""

    def __init__(
        self,
        plan: ExamPlan,
        questions: Sequence[Question],
        journal: Journal,
        asker: Asker,
        checker: Checker | None,
    ) -> None:
        self._plan = plan
        self._questions = questions
        self._journal = journal
        self._asker = asker
        self._checker = checker
        self._policy = ARMS[plan.arm].policy
        self._guidance = Guidance(plan.lessons)
        self._keys = {question.id: question.answer for question in questions}
        every = {(q.id, n) for q in questions for n in range(1, plan.repeat + 1)}
        self._budget = Budget(plan.budget, every)
        for event in journal.events:
            if event["type"] == "reply":
                tokens = Tokens.from_dict(event["usage"])
                self._budget.enter(event["question_id"], event["repeat"], event["step"], tokens)

    async def repeat(self, number: int, told: Told) -> list[QuestionStatus]:
        """All statuses of one repeat, in the order of the questions."""
        asker = RecordedAsker(
            BudgetedAsker(self._asker, self._budget, number), self._journal, number
        )
        wanted = self._checker is not None and self._policy.code_check
        checker = RecordedChecker(self._checker, self._journal, number) if wanted else None  # pyright: ignore[reportArgumentType]

        async def solve(problem: Problem) -> QuestionStatus:
            drawn = Random(f"{self._plan.seed}:{number}:{problem.id}")  # noqa: S311  # an order
            loop = Loop(
                asker,
                self._policy,
                checker,
                guidance=self._guidance,
                reference=self._keys.__getitem__ if self._policy.reference else None,
                shuffle=drawn,
            )
            return await loop.solve(problem)

        orchestrator = Orchestrator(
            solve,
            self._journal,
            repeat=number,
            workers=self._plan.workers,
            told=lambda problem, status: told(number, problem, status),
        )
        return await orchestrator.run([problem_of(question) for question in self._questions])

    def write(
        self, repeats: Sequence[Sequence[QuestionStatus]], config: dict[str, Any]
    ) -> tuple[Path, ...]:
        """Write the result files and the report; paths of the result files."""
        paths: list[Path] = []
        for number, statuses in enumerate(repeats, 1):
            file = result_file(
                self._questions,
                statuses,
                model=self._plan.model,
                generated_at=self._journal.generated_at,
                config={**config, "this_repeat": number},
            )
            paths.append(result_path(self._plan.out, number))
            write(paths[-1], file)
        text = summary(self._questions, repeats, config)
        (self._plan.out / REPORT).write_text(text, encoding="utf-8")
        return tuple(paths)


def chosen(dataset: Dataset, limit: int) -> list[Question]:
    """The first questions of each subject in turn, in the order of the dataset."""
    questions = list(dataset.questions)
    if not limit or limit >= len(questions):
        return questions
    by_subject: dict[str, list[Question]] = {}
    for question in questions:
        by_subject.setdefault(question.subject, []).append(question)
    taken: set[str] = set()
    turn = 0
    while len(taken) < limit:
        for of in by_subject.values():
            if turn < len(of) and len(taken) < limit:
                taken.add(of[turn].id)
        turn += 1
    return [question for question in questions if question.id in taken]
