"""What an exam took beside tokens: lines of code and the time of its questions.

Result files of frameworks tell both in `config`. Ours tell none of them, so that a resumed exam
writes the same file; the time stands in the journal beside, when one process sat the whole exam.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, cast

from deerflow import __version__
from deerflow.exam import asking
from deerflow.exam.contract import ResultFile
from deerflow.exam.frameworks.code import code_lines
from deerflow.exam.journal import ending
from deerflow.exam.sitting import JOURNAL
from deerflow.exam.writer import FRAMEWORK
from deerflow.verify import loop

OURS = (loop, asking)
"""What other frameworks' programs do is here: how roles are asked, and how an answer goes round."""


@dataclass(frozen=True, slots=True)
class Effort:
    """What is told of an exam; None for what is not.

    Attributes:
        lines: of code in which the framework's part is written.
        seconds: from the first question to the last status, all repeats; without start-up.
        workers: questions at once.
    """

    lines: int | None = None
    seconds: float | None = None
    workers: int | None = None


def effort(files: Sequence[ResultFile], place: Path) -> Effort:
    """What the repeats of an arm took.

    Args:
        files: its result files; at least one.
        place: the folder, or the file, that they were read from.

    Raises:
        UsageError: a journal beside them is none.
    """
    config = files[0].config
    if files[0].framework == FRAMEWORK:
        known = config.get("version") == __version__
        lines = sum(code_lines(Path(str(each.__file__))) for each in OURS) if known else None
        last = (ending(place / JOURNAL) if place.is_dir() else None) or {}
        return Effort(lines, _seconds(last.get("seconds")), _count(last.get("workers")))
    walls = [_seconds(file.config.get("wall_ms")) for file in files]
    told = [wall for wall in walls if wall is not None]
    return Effort(
        lines=_count(config.get("lines_of_code")),
        seconds=sum(told) / 1000 if len(told) == len(walls) else None,
        workers=_count(config.get("workers")),
    )


def middle(latencies: Sequence[int]) -> float | None:
    """The median of milliseconds, in seconds; None when nothing was told."""
    ordered = sorted(latencies)
    return ordered[len(ordered) // 2] / 1000 if ordered and ordered[-1] else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _seconds(value: Any) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    number = cast("float", value)
    return number if isfinite(number) and number >= 0 else None
