"""What a report consists of, before it is Markdown or HTML; texts are raw, renderers escape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deerflow.exam.accounts import Spent
from deerflow.exam.calibration import (
    Confusion,
    Revisions,
    Stated,
    brier,
    calibration_error,
    reliability,
    risk_coverage,
)
from deerflow.exam.report import plots
from deerflow.exam.report.plots import Plot
from deerflow.exam.report.text import NOTHING, money, number, per, percent, plain


@dataclass(frozen=True, slots=True)
class Table:
    """Heads of columns, and rows of the same length; `numbers` are columns that align right."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report.

    Attributes:
        title: its heading.
        lines: paragraphs before the table.
        table: or None.
        plots: shown by HTML alone.
    """

    title: str
    lines: tuple[str, ...] = ()
    table: Table | None = None
    plots: tuple[Plot, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """A whole report.

    Attributes:
        title: its first heading.
        facts: name and value, listed below the title; a value alone where the name is "".
        warnings: shown before everything else.
        sections: in order.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]
    sections: tuple[Section, ...]


def costs(
    spent: Mapping[str, Spent], total: Spent, counts: Mapping[str, int], latency: Sequence[int]
) -> Section:
    """What a result cost.

    Args:
        spent: by role.
        total: of all roles.
        counts: answers by what they are: questions, accepted, correct.
        latency: milliseconds of each question.
    """
    rows = [_spent_row(role, one, counts) for role, one in spent.items()]
    rows.append(_spent_row("all", total, counts))
    lines = [f"{total.input:,} tokens in ({total.cached:,} cached), {total.output:,} out."]
    if total.cost:
        each = [f"{money(total.cost, count)} per {name}" for name, count in counts.items() if count]
        lines.append(f"Money: {money(total.cost)} in all; {'; '.join(each)}.")
    ordered = sorted(latency)
    if ordered and ordered[-1]:
        middle = ordered[len(ordered) // 2] / 1000
        lines.append(
            f"Seconds per question: {middle:.1f} in the middle, {ordered[-1] / 1000:.1f} at most."
        )
    correct = counts.get("correct answer", 0)
    drawn = [
        plots.Bar(plain(role), one.total / correct, per(one.total, correct))
        for role, one in spent.items()
        if correct
    ]
    head = ("Role", "Calls", "Tokens", *(f"per {name}" for name in counts))
    return Section(
        "Cost",
        tuple(lines),
        Table(head, tuple(rows), frozenset(range(1, len(head)))),
        (plots.bars("Tokens per correct answer, by role", drawn),) if drawn else (),
    )


def validator(table: Confusion, moves: Revisions) -> Section:
    """The validator as a classifier of answers."""
    lines = [
        f"Precision {percent(table.precision)}, recall {percent(table.recall)}, "
        f"wrong answers accepted {percent(table.false_accepts)}.",
    ]
    if moves.helpful or moves.harmful or moves.idle:
        lines.append(
            f"Of first answers {moves.helpful} were wrong and right in the end (helpful), "
            f"{moves.harmful} were right and wrong in the end (harmful), {moves.idle} stayed."
        )
    rows = (
        ("accepted", str(table.accepted_right), str(table.accepted_wrong)),
        ("not accepted", str(table.refused_right), str(table.refused_wrong)),
    )
    return Section(
        "Validator",
        tuple(lines),
        Table(("", "Right", "Wrong"), rows, frozenset({1, 2})),
        (plots.matrix("Accepted against right", table),),
    )


def confidence(kind: str, stated: Stated) -> Section:
    """How far a confidence can be trusted."""
    table = reliability(stated)
    points = risk_coverage(stated)
    rows = tuple(
        (
            f"{each.low:.1f} to {each.high:.1f}",
            str(each.count),
            percent(each.confidence) if each.count else NOTHING,
            percent(each.accuracy) if each.count else NOTHING,
        )
        for each in table
    )
    half = next((risk for coverage, risk in points if coverage >= 0.5), None)
    line = (
        f"Brier score {number(brier(stated))}, expected calibration error "
        f"{number(calibration_error(stated))}, of {len(stated)} answers. Of the surer half of the "
        f"answers {percent(half)} are wrong."
    )
    return Section(
        f"Confidence, {kind}",
        (line,),
        Table(("Confidence", "Answers", "Mean", "Right"), rows, frozenset({1, 2, 3})),
        (
            plots.reliability_curve(f"Reliability of the {kind} confidence", table),
            plots.risk_curve(f"Risk over coverage, {kind} confidence", points),
        ),
    )


def _spent_row(role: str, spent: Spent, counts: Mapping[str, int]) -> tuple[str, ...]:
    each = (per(spent.total, count) for count in counts.values())
    return (role, f"{spent.calls:,}", f"{spent.total:,}", *each)
