"""What arms took beside each other: lines of code, calls, tokens, time."""

from __future__ import annotations

from collections.abc import Sequence

from deerflow.exam.compare import Arm
from deerflow.exam.effort import middle
from deerflow.exam.report import plots
from deerflow.exam.report.sections import Section, Table
from deerflow.exam.report.text import NOTHING, percent, plain

_HEAD = ("Arm", "Lines of code", "Calls", "Tokens", "Latency", "Wall", "Workers", "Score")
_LINES = (
    "Lines of code, without blank lines, comments and docstrings, in which roles are asked and an "
    "answer goes round; prompts, reading and files are left out on all sides. Ours serve every "
    "arm.",
    "Latency is the middle one of the questions, in seconds: ours counts calls and checks, "
    "frameworks count the whole question. Wall is from the first question to the last status of "
    "all repeats, in seconds; imports and start-up are not counted, our journal is.",
)


def sections_of(arms: Sequence[Arm]) -> list[Section]:
    """The section, where any arm tells its lines or its time."""
    told = [arm for arm in arms if arm.effort.lines or arm.effort.seconds is not None]
    if not told:
        return []
    rows = tuple(_row(arm) for arm in arms)
    walls = [
        plots.Bar(plain(arm.name), arm.effort.seconds, seconds(arm.effort.seconds))
        for arm in told
        if arm.effort.seconds is not None
    ]
    drawn = (plots.bars("Wall time in seconds", walls),) if walls else ()
    return [Section("Effort", _LINES, Table(_HEAD, rows, frozenset(range(1, 8))), drawn)]


def seconds(value: float | None) -> str:
    """Seconds with two decimals."""
    return NOTHING if value is None else f"{value:,.2f}"


def latency(arm: Arm) -> float | None:
    """The middle latency of all records of an arm, in seconds."""
    return middle([a.latency_ms for each in arm.repeats for a in each.accounts.values()])


def _row(arm: Arm) -> tuple[str, ...]:
    spent, took = arm.spent, arm.effort
    told = latency(arm)
    return (
        arm.name,
        f"{took.lines:,}" if took.lines else NOTHING,
        f"{spent.calls:,}",
        f"{spent.total:,}",
        NOTHING if told is None else f"{told:.3f}",
        seconds(took.seconds),
        str(took.workers or NOTHING),
        percent(arm.compat),
    )
