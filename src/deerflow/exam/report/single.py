"""The report of one result file: as the public benchmark has it, then what that leaves out."""

from __future__ import annotations

from collections import Counter
from typing import get_args

from deerflow.exam.accounts import by_role, summed
from deerflow.exam.dataset import SUBJECTS
from deerflow.exam.graded import Graded
from deerflow.exam.graders.scores import Scored
from deerflow.exam.report import plots, sections
from deerflow.exam.report.sections import Report, Section, Table
from deerflow.exam.report.text import percent, percents
from deerflow.exam.statistics import wilson
from deerflow.verify.messages import State


def report_of(graded: Graded) -> Report:
    """The report of a graded result file."""
    scores = graded.scores
    parts = [
        _by_subject(graded),
        Section(
            "By question type",
            table=_scores(("Type", "Score"), list(scores.by_type.items())),
        ),
        Section("Per-question detail", table=_detail(graded)),
        _strict(graded),
        *_states(graded),
        *_costs(graded),
    ]
    if graded.confusion.total:
        parts.append(sections.validator(graded.confusion, graded.revisions))
    for kind in ("stated", "agreement"):
        stated = graded.confidence(kind)
        if stated:
            parts.append(sections.confidence(kind, stated))
    return Report(
        title=f"{graded.file.framework} — Results",
        facts=(
            ("Model", graded.file.model),
            ("Generated", graded.file.generated_at),
            ("Questions scored", str(scores.count)),
            ("Overall (normalized)", percent(scores.overall)),
        ),
        warnings=warnings_of(graded),
        sections=tuple(parts),
    )


def warnings_of(graded: Graded) -> tuple[str, ...]:
    """What a reader must know before any number."""
    found: list[str] = []
    if graded.leaky:
        found.append(
            "The key had a way into these answers: they show a bound and compare with nothing else."
        )
    told = graded.file.config.get("dataset_sha256")
    if isinstance(told, str) and told and told != graded.dataset.sha256:
        found.append("The answers were given to another version of the dataset.")
    return tuple(found)


def _by_subject(graded: Graded) -> Section:
    means = graded.scores.by_subject
    rows = [(name, means[name]) for name in SUBJECTS if name in means]
    strict = {name: list[bool]() for name in SUBJECTS}
    for each in graded.counted:
        strict.setdefault(each.subject, []).append(each.grade.correct)
    drawn = [
        plots.Bar(name, found.value, f"{sum(right)} of {len(right)}", found.low, found.high)
        for name, right in strict.items()
        if right
        for found in [wilson(sum(right), len(right))]
    ]
    plot = plots.bars("Fully right answers by subject, with 95 % intervals", drawn, most=1.0)
    return Section(
        "By subject", table=_scores(("Subject", "Score"), rows), plots=(plot,) if drawn else ()
    )


def _detail(graded: Graded) -> Table:
    rows = tuple(
        (
            each.question_id,
            f"{int(each.grade.earned)}/{each.grade.max_points}",
            "✓" if each.grade.correct else "✗",
            each.grade.grader,
        )
        for each in graded.compat
    )
    return Table(("Question", "Earned/Max", "Correct", "Grader"), rows)


def _strict(graded: Graded) -> Section:
    title = "Strict beside compatible"
    scores, compat = graded.strict_scores, graded.scores
    if scores is None:
        return Section(title, (graded.refusal,))
    right = wilson(scores.correct, scores.count)
    missing = sum(each.grade.grader == "missing" for each in graded.strict)
    lines = [
        f"Strict: {percent(scores.overall)} of all {scores.count} questions, {missing} without an "
        f"answer; fully right {scores.correct} (95 %: {percents(right)}). "
        f"Compatible: {percent(compat.overall)} of {compat.count} records.",
        "Strict counts a missing answer as wrong, reads the last declared letter, and compares "
        "short answers with the key; answers in words that differ from it earn the criteria that "
        "they assert.",
    ]
    first: dict[str, Scored] = {}
    for each in graded.compat:
        first.setdefault(each.question_id, each)
    rows = tuple(
        (each.question_id, _points(first.get(each.question_id)), _points(each), _why(each))
        for each in graded.strict
        if _differs(first.get(each.question_id), each)
    )
    lines.append(f"The two disagree on {len(rows)} of {scores.count} questions.")
    if not rows:
        return Section(title, tuple(lines))
    return Section(title, tuple(lines), Table(("Question", "Compatible", "Strict", "How"), rows))


def _differs(compat: Scored | None, strict: Scored) -> bool:
    if compat is None:
        return True
    return abs(compat.grade.normalized - strict.grade.normalized) > 1e-9


def _points(scored: Scored | None) -> str:
    return "—" if scored is None else f"{scored.grade.earned:g}/{scored.grade.max_points}"


def _why(scored: Scored) -> str:
    return f"{scored.grade.grader}. {scored.grade.note}".removesuffix(". ")


def _states(graded: Graded) -> list[Section]:
    told = [each for each in graded.accounts.values() if each.state]
    if not told:
        return []
    counts = Counter(each.state for each in told)
    right = Counter(each.state for each in told if graded.right.get(each.question_id))
    rows = tuple(
        (state, str(counts[state]), str(right[state])) for state in get_args(State) if counts[state]
    )
    errors = Counter(each.error for each in told if each.error)
    lines = tuple(f"{count} times: {name}." for name, count in sorted(errors.items()))
    table = Table(("State", "Questions", "Right"), rows, frozenset({1, 2}))
    return [Section("How questions ended", lines, table)]


def _costs(graded: Graded) -> list[Section]:
    accounts = list(graded.accounts.values())
    total = summed(each.total for each in accounts)
    if not total.total and not any(each.latency_ms for each in accounts):
        return []
    counts = {
        "question": len(accounts),
        "accepted answer": sum(each.accepted is True for each in accounts),
        "correct answer": sum(bool(graded.right.get(each.question_id)) for each in accounts),
    }
    latency = [each.latency_ms for each in accounts]
    return [sections.costs(by_role(accounts), total, counts, latency)]


def _scores(head: tuple[str, str], rows: list[tuple[str, float]]) -> Table:
    return Table(head, tuple((name, percent(score)) for name, score in rows), frozenset({1}))
