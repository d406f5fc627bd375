"""Reports as Markdown."""

from __future__ import annotations

from deerflow.exam.report.sections import Report, Table
from deerflow.exam.report.text import PARAGRAPH, cell


def render(report: Report) -> str:
    """The report; foreign texts form neither headings, cells, links nor HTML."""
    lines = [f"# {cell(report.title)}", ""]
    lines += [f"- {cell(name)}: {cell(value)}" for name, value in report.facts]
    for warning in report.warnings:
        lines += ["", f"**{cell(warning, PARAGRAPH)}**"]
    for section in report.sections:
        lines += ["", f"## {cell(section.title)}"]
        for line in section.lines:
            lines += ["", cell(line, PARAGRAPH)]
        if section.table is not None:
            lines += ["", *_table(section.table)]
    return "\n".join(lines) + "\n"


def _table(table: Table) -> list[str]:
    rules = ("---:" if place in table.numbers else "---" for place in range(len(table.head)))
    return [
        _row(table.head),
        f"|{'|'.join(rules)}|",
        *(_row(row) for row in table.rows),
    ]


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(map(cell, cells))} |"
