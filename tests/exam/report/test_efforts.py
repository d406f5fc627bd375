"""The table of lines, calls, tokens and times."""

from __future__ import annotations

from deerflow.exam.compare import Arm
from deerflow.exam.effort import Effort
from deerflow.exam.graded import Grading, grade_file
from deerflow.exam.report.efforts import sections_of
from fakes.exams import KEYS, READING, result_file, six, told


async def arm(name: str, effort: Effort) -> Arm:
    file = result_file(KEYS, raw=[told("accepted") for _ in KEYS])
    return Arm(name, (await grade_file(file, six(), Grading(READING)),), effort)


async def test_a_row_for_each_arm() -> None:
    arms = [await arm("ours", Effort(180, 0.25, 1)), await arm("old", Effort())]
    (section,) = sections_of(arms)
    assert section.table is not None
    assert section.table.rows == (
        ("ours", "180", "12", "1,200", "1.000", "0.25", "1", "83.3%"),
        ("old", "—", "12", "1,200", "1.000", "—", "—", "83.3%"),
    )
    assert len(section.table.head) == len(section.table.rows[0])
    assert len(section.plots) == 1


async def test_no_table_where_nothing_is_told() -> None:
    assert sections_of([await arm("old", Effort())]) == []
    (section,) = sections_of([await arm("lines", Effort(lines=3))])
    assert section.plots == ()
