"""Reports as one HTML page: no script, nothing fetched, light and dark, readable on a phone."""

from __future__ import annotations

from html import escape

from deerflow.exam.report import plots
from deerflow.exam.report.sections import Report, Section, Table
from deerflow.exam.report.text import LONGEST, PARAGRAPH, plain

_STYLE = f"""
:root{{color-scheme:light dark;--back:#fff;--ink:#1b1f24;--quiet:#59636e;--line:#d1d9e0;
--bar:#2f6f9f;--good:#bfe3c8;--bad:#f3c6c2;--pale:#e9edf1;--warn:#fff3cd}}
@media (prefers-color-scheme:dark){{:root{{--back:#14181d;--ink:#e6eaee;--quiet:#9aa5b1;
--line:#39424d;--bar:#6fb1e0;--good:#1f5a33;--bad:#7a2b26;--pale:#2a323b;--warn:#4a3d10}}}}
*{{box-sizing:border-box}}
body{{margin:0 auto;padding:1rem;max-width:60rem;background:var(--back);color:var(--ink);
font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}}
h1{{font-size:1.5rem;line-height:1.25}} h2{{font-size:1.15rem;margin:2rem 0 .5rem}}
dl{{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem}}
dt{{color:var(--quiet)}} dd{{margin:0}}
.wide{{overflow-x:auto}} table{{border-collapse:collapse;font-size:.9rem;overflow-wrap:normal}}
th,td{{padding:.25rem .6rem;text-align:left;border-bottom:1px solid var(--line)}}
.number{{text-align:right;font-variant-numeric:tabular-nums}}
.warning{{background:var(--warn);padding:.5rem .75rem;border-radius:.25rem}}
figure{{margin:1rem 0}} figcaption{{color:var(--quiet);font-size:.85rem}}
{plots.STYLE}
""".strip()
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def render(report: Report) -> str:
    """The page; foreign texts are escaped, and the page's own policy forbids scripts."""
    facts = "".join(
        f"<dt>{_safe(name)}</dt><dd>{_safe(value)}</dd>" for name, value in report.facts
    )
    warnings = "".join(
        f'<p class="warning">{_safe(text, PARAGRAPH)}</p>\n' for text in report.warnings
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_safe(report.title)}</title>\n<style>\n{_STYLE}\n</style>\n</head>\n<body>\n"
        f"<h1>{_safe(report.title)}</h1>\n<dl>{facts}</dl>\n{warnings}"
        f"{''.join(map(_section, report.sections))}</body>\n</html>\n"
    )


def _section(section: Section) -> str:
    lines = "".join(f"<p>{_safe(line, PARAGRAPH)}</p>\n" for line in section.lines)
    drawn = "".join(
        f"<figure><figcaption>{_safe(plot.title)}</figcaption>{plot.svg}</figure>\n"
        for plot in section.plots
    )
    table = "" if section.table is None else _table(section.table)
    return f"<section>\n<h2>{_safe(section.title)}</h2>\n{lines}{drawn}{table}</section>\n"


def _table(table: Table) -> str:
    head = "".join(f"<th{_kind(table, n)}>{_safe(text)}</th>" for n, text in enumerate(table.head))
    rows = "".join(
        "<tr>"
        + "".join(f"<td{_kind(table, n)}>{_safe(t)}</td>" for n, t in enumerate(row))
        + "</tr>\n"
        for row in table.rows
    )
    return (
        f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{rows}</tbody>\n</table></div>\n"
    )


def _kind(table: Table, place: int) -> str:
    return ' class="number"' if place in table.numbers else ""


def _safe(text: str, longest: int = LONGEST) -> str:
    return escape(plain(text, longest))
