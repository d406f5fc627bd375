"""The report of several arms: first as the public benchmark has it, then what can be concluded."""

from __future__ import annotations

from collections.abc import Sequence

from deerflow.exam.compare import Arm, Comparison
from deerflow.exam.dataset import SUBJECTS
from deerflow.exam.report import efforts, plots, sections
from deerflow.exam.report.plots import Plot
from deerflow.exam.report.sections import Report, Section, Table
from deerflow.exam.report.single import warnings_of
from deerflow.exam.report.text import (
    NOTHING,
    money,
    p_value,
    per,
    percent,
    percents,
    plain,
    points,
    price,
)
from deerflow.exam.statistics import wilson

LEVEL = 0.05


def report_of(comparison: Comparison, generated: str) -> Report:
    """The report of a comparison.

    Args:
        comparison: of arms.
        generated: when, as it is to stand in the report.
    """
    arms = comparison.arms
    parts = [
        Section("Overall", table=_overall(arms)),
        Section("By subject", table=_by_subject(arms), plots=_subject_plots(arms)),
        _strict(comparison, arms),
        *_pairs(comparison),
        _flips(arms),
        _cost([*arms, *comparison.apart]),
        *efforts.sections_of([*arms, *comparison.apart]),
        *_validators(arms),
        *_confidences(arms),
    ]
    if comparison.apart:
        parts.append(_apart(comparison))
    return Report(
        "Framework Comparison",
        (("Generated", generated),),
        _warnings([*arms, *comparison.apart]),
        tuple(parts),
    )


def _warnings(arms: Sequence[Arm]) -> tuple[str, ...]:
    return tuple(
        f"{arm.name}: {warning}"
        for arm in arms
        for warning in dict.fromkeys(w for each in arm.repeats for w in warnings_of(each))
    )


def _overall(arms: Sequence[Arm]) -> Table:
    rows = tuple(
        (arm.name, arm.model, percent(arm.compat), str(arm.repeats[0].scores.count)) for arm in arms
    )
    return Table(("Framework", "Model", "Overall", "Questions"), rows, frozenset({2, 3}))


def _by_subject(arms: Sequence[Arm]) -> Table:
    rows: list[tuple[str, ...]] = []
    for arm in arms:
        repeats = [each.scores.by_subject for each in arm.repeats]
        means = {
            name: sum(told) / len(told)
            for name in SUBJECTS
            if (told := [each[name] for each in repeats if name in each])
        }
        rows.append((arm.name, *(percent(means.get(name)) for name in SUBJECTS)))
    return Table(("Framework", *SUBJECTS), tuple(rows), frozenset(range(1, len(SUBJECTS) + 1)))


def _subject_plots(arms: Sequence[Arm]) -> tuple[Plot, ...]:
    drawn: list[Plot] = []
    for subject in SUBJECTS:
        rows: list[plots.Bar] = []
        for arm in arms:
            right = [ok for name, ok in arm.right().items() if name.startswith(f"{subject}-")]
            if right:
                found, told = wilson(sum(right), len(right)), f"{sum(right)} of {len(right)}"
                rows.append(plots.Bar(plain(arm.name), found.value, told, found.low, found.high))
        if rows:
            title = f"Fully right in {subject}, with 95 % intervals"
            drawn.append(plots.bars(title, rows, most=1.0))
    return tuple(drawn)


def _strict(comparison: Comparison, arms: Sequence[Arm]) -> Section:
    rows: list[tuple[str, ...]] = []
    drawn: list[plots.Bar] = []
    for arm in arms:
        mean, right = comparison.means[arm.name], arm.fully_right
        rows.append(
            (
                arm.name,
                str(len(arm.repeats)),
                percent(mean.value),
                percents(mean),
                percent(right.value),
                percents(right),
            )
        )
        told = percent(mean.value)
        drawn.append(plots.Bar(plain(arm.name), mean.value, told, mean.low, mean.high))
    head = ("Arm", "Repeats", "Mean score", "95 %", "Fully right", "95 %")
    lines = (
        "The mean's interval is a bootstrap over questions inside their subjects, with repeats "
        "inside questions. Fully right counts questions that are right in most repeats, with a "
        "Wilson interval.",
    )
    plot = plots.bars("Strict mean score with 95 % intervals", drawn, most=1.0)
    table = Table(head, tuple(rows), frozenset(range(1, 6)))
    return Section("Strict scores", lines, table, (plot,))


def _pairs(comparison: Comparison) -> list[Section]:
    if not comparison.pairs:
        return []
    rows = tuple(
        (
            f"{pair.other} over {pair.one}",
            points(pair.difference.value),
            f"{points(pair.difference.low)} to {points(pair.difference.high)}",
            f"{len(pair.gained)} to {len(pair.lost)}",
            p_value(pair.p),
            p_value(pair.adjusted),
        )
        for pair in comparison.pairs
    )
    clear = [pair for pair in comparison.pairs if pair.adjusted < LEVEL]
    found = comparison.detectable
    lines = [
        "Points are percentage points of the strict score; p is of the exact McNemar test on fully "
        "right questions, then corrected after Holm for all pairs.",
        f"{len(clear)} of {len(comparison.pairs)} pairs differ at {LEVEL:.0%} after correction.",
        f"With {len(comparison.dataset.questions)} questions an arm that loses none must win "
        f"{comparison.wins_needed} for p < {LEVEL:g}"
        + (
            f"; a true gain of {100 * found:.0f} points without losses is found four times in five."
            if found is not None
            else "; no gain is found four times in five."
        ),
    ]
    head = ("Pair", "Points", "95 %", "Won to lost", "p", "p (Holm)")
    return [Section("Pairs", tuple(lines), Table(head, rows, frozenset(range(1, 6))))]


def _flips(arms: Sequence[Arm]) -> Section:
    right = {plain(arm.name): arm.right() for arm in arms}
    names = [
        question.id
        for question in (arms[0].repeats[0].dataset.questions if arms else ())
        if len({of[question.id] for of in right.values()}) > 1
    ]
    if not names:
        return Section("Flips", ("All arms have the same questions right.",))
    rows = tuple((name, *("✓" if of[name] else "✗" for of in right.values())) for name in names)
    line = f"{len(names)} questions are right in some arms and wrong in others."
    plot = plots.flips("Questions that some arms have right", names, right)
    return Section("Flips", (line,), Table(("Question", *right), rows), (plot,))


def _cost(arms: Sequence[Arm]) -> Section:
    rows: list[tuple[str, ...]] = []
    drawn: list[plots.Bar] = []
    for arm in arms:
        spent, told = arm.spent, [a for each in arm.repeats for a in each.accounts.values()]
        accepted = sum(each.accepted is True for each in told)
        seconds = sum(each.latency_ms for each in told) / 1000
        rows.append(
            (
                arm.name,
                f"{spent.calls:,}",
                price(spent, len(told)),
                price(spent, accepted),
                price(spent, arm.correct),
                f"{seconds / len(told):.1f}" if told and seconds else NOTHING,
            )
        )
        if arm.correct and spent.total:
            told_cost = per(spent.total, arm.correct)
            drawn.append(plots.Bar(plain(arm.name), spent.total / arm.correct, told_cost))
    head = ("Arm", "Calls", "per question", "per accepted", "per correct", "Seconds per question")
    paid = [f"{arm.name} {money(arm.spent.cost)}" for arm in arms if arm.spent.cost]
    lines = ["Tokens, in and out, of all repeats."]
    lines += [f"Money in all: {'; '.join(paid)}."] if paid else []
    return Section(
        "Cost",
        tuple(lines),
        Table(head, tuple(rows), frozenset(range(1, 6))),
        (plots.bars("Tokens per correct answer", drawn),) if drawn else (),
    )


def _validators(arms: Sequence[Arm]) -> list[Section]:
    seen = [(arm, arm.confusion) for arm in arms if arm.confusion.total]
    if not seen:
        return []
    rows: list[tuple[str, ...]] = []
    for arm, table in seen:
        moves = [each.revisions for each in arm.repeats]
        rows.append(
            (
                arm.name,
                percent(table.precision),
                percent(table.recall),
                percent(table.false_accepts),
                str(sum(each.helpful for each in moves)),
                str(sum(each.harmful for each in moves)),
            )
        )
    head = ("Arm", "Precision", "Recall", "Wrong accepted", "Helpful", "Harmful")
    drawn = tuple(plots.matrix(f"Accepted against right, {plain(a.name)}", t) for a, t in seen)
    line = "Helpful revisions end right what began wrong, harmful ones the other way round."
    return [Section("Validators", (line,), Table(head, tuple(rows), frozenset(range(1, 6))), drawn)]


def _confidences(arms: Sequence[Arm]) -> list[Section]:
    return [
        sections.confidence(f"{kind} ({arm.name})", stated)
        for arm in arms
        for kind in ("stated", "agreement")
        if (stated := arm.confidence(kind))
    ]


def _apart(comparison: Comparison) -> Section:
    told = _strict(comparison, comparison.apart)
    return Section(
        "Arms that saw the key",
        ("Bounds, no abilities: they are in no pair and in no other table but the cost.",),
        told.table,
        told.plots,
    )
