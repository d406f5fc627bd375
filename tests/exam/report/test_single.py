"""The report of one result file, as Markdown and as a page."""

from __future__ import annotations

import re
from typing import Any

import pytest

from deerflow.exam.contract import ResultFile
from deerflow.exam.graded import Grading, grade_file
from deerflow.exam.report import html, markdown
from deerflow.exam.report.sections import Report
from deerflow.exam.report.single import report_of
from fakes.exams import KEYS, READING, SIX, answer, result_file, six, told
from fakes.pages import Page

STATES = ["accepted", "accepted", "exhausted", "exhausted", "unvalidated", "validator_error"]
FULL = [told(state) for state in STATES]


async def report(file: ResultFile) -> Report:
    return report_of(await grade_file(file, six(), Grading(READING)))


async def text(file: ResultFile) -> str:
    return markdown.render(await report(file))


def headings(written: str) -> list[str]:
    return re.findall(r"^#+ .*$", written, re.MULTILINE)


async def test_the_order_and_the_form_of_the_public_report() -> None:
    written = await text(result_file(["B", "The answer is B", "B", "moves", "trade"]))
    assert written.startswith(
        "# deerflow — Results\n"
        "\n"
        "- Model: m\n"
        "- Generated: 2026-01-01T00:00:00Z\n"
        "- Questions scored: 5\n"
        "- Overall (normalized): 50.0%\n"
        "\n"
        "## By subject\n"
        "\n"
        "| Subject | Score |\n"
        "|---|---:|\n"
        "| math | 33.3% |\n"
        "| physics | 100.0% |\n"
        "| history | 50.0% |\n"
        "\n"
        "## By question type\n"
        "\n"
        "| Type | Score |\n"
        "|---|---:|\n"
        "| multiple_choice | 66.7% |\n"
    )
    assert (
        "## Per-question detail\n\n"
        "| Question | Earned/Max | Correct | Grader |\n|---|---|---|---|\n"
        "| math-001 | 1/1 | ✓ | exact |\n"
        "| math-002 | 0/1 | ✗ | exact |\n"
    ) in written
    assert "| history-001 | 1/2 | ✗ | rubric |" in written


async def test_subjects_stand_in_their_fixed_order() -> None:
    file = result_file([])
    answers = [answer(question, "B") for question in reversed(SIX)]
    written = await text(file.model_copy(update={"results": answers}))
    subjects = re.findall(r"^\| (math|physics|history) \|", written, re.MULTILINE)
    assert subjects == ["math", "physics", "history"]
    assert written.index("| short_answer |") < written.index("| multiple_choice |")


async def test_strict_beside_compatible_and_where_they_disagree() -> None:
    written = await text(result_file(["B", "The answer is B", "A", "x = 12"]))
    assert "Strict: 50.0% of all 6 questions, 2 without an answer; fully right 3" in written
    assert "Compatible: 25.0% of 4 records." in written
    assert "The two disagree on 4 of 6 questions." in written
    assert "| math-002 | 0/1 | 1/1 | exact |" in written
    assert "| math-005 | 0/2 | 2/2 | equivalence |" in written
    assert "| history-002 | — | 0/2 | missing |" in written


async def test_a_file_that_cannot_be_graded_strictly_says_why() -> None:
    file = result_file(["B"])
    file = file.model_copy(update={"results": [*file.results, *file.results]})
    written = await text(file)
    assert "answered more than once: math-001" in written
    assert "- Questions scored: 2\n" in written


async def test_states_cost_validator_and_confidence() -> None:
    responses = ["B", "C", "B", "x = 13", KEYS[4], KEYS[5]]
    written = await text(result_file(responses, raw=FULL))
    assert headings(written)[-5:] == [
        "## How questions ended",
        "## Cost",
        "## Validator",
        "## Confidence, stated",
        "## Confidence, agreement",
    ]
    assert "| accepted | 2 | 1 |\n| exhausted | 2 | 1 |\n| unvalidated | 1 | 1 |" in written
    assert "1,080 tokens in (360 cached), 120 out." in written
    assert "Money: 0.24 USD in all; 0.04 USD per question; 0.12 USD per accepted answer" in written
    assert "| resolver | 6 | 600 | 100 | 300 | 150 |" in written
    assert "| all | 12 | 1,200 | 200 | 600 | 300 |" in written
    assert "Seconds per question: 1.0 in the middle, 1.0 at most." in written
    assert "Precision 50.0%, recall 50.0%, wrong answers accepted 50.0%." in written
    assert "| accepted | 1 | 1 |\n| not accepted | 1 | 1 |" in written
    assert "Brier score 0.277" in written  # (4 * 0.01 + 2 * 0.81) / 6


async def test_revisions_are_told() -> None:
    raw = [told("accepted", history=[{"step": "resolve", "response": each}]) for each in "CB"]
    written = await text(result_file(["B", "C"], raw=raw))
    assert "1 were wrong and right in the end (helpful), 1 were right and wrong in the" in written


async def test_what_is_not_told_has_no_section() -> None:
    file = result_file([])
    written = await text(file)
    assert headings(written)[-1] == "## Strict beside compatible"
    assert "- Overall (normalized): 0.0%" in written


@pytest.mark.parametrize(
    ("config", "warned"),
    [
        ({"leaky": True}, "The key had a way into these answers"),
        ({"dataset_sha256": "another"}, "another version of the dataset"),
    ],
)
async def test_warnings_stand_before_all_numbers(config: dict[str, Any], warned: str) -> None:
    written = await text(result_file(["B"], config=config))
    assert written.index(warned) < written.index("## By subject")
    assert warned not in await text(result_file(["B"], config={"dataset_sha256": "sha-of-six"}))
    assert warned in Page(html.render(await report(result_file(["B"], config=config)))).text


# ---- the page ----


async def test_the_page_says_the_same_and_runs_nothing() -> None:
    found = await report(result_file(["B", "C", "B", "x = 13", "trade", ""], raw=FULL))
    page = Page(html.render(found))
    assert page.safe()
    assert [
        title for title in (part.title for part in found.sections) if title not in page.text
    ] == []
    tables = [part.table for part in found.sections if part.table is not None]
    rows = [list(row) for table in tables for row in (table.head, *table.rows)]
    assert page.rows == rows
    assert ("meta", "name", "viewport") in page.attributes
    assert "prefers-color-scheme:dark" in page.source
    assert "default-src 'none'" in page.source


async def test_the_page_draws_what_the_numbers_say() -> None:
    found = await report(result_file(["B", "C", "B", "x = 13", "trade", ""], raw=FULL))
    page = Page(html.render(found))
    titles = [plot.attrib["aria-label"] for plot in page.plots]
    assert titles == [
        "Fully right answers by subject, with 95 % intervals",
        "Tokens per correct answer, by role",
        "Accepted against right",
        "Reliability of the stated confidence",
        "Risk over coverage, stated confidence",
        "Reliability of the agreement confidence",
        "Risk over coverage, agreement confidence",
    ]
    assert all(title in page.text for title in titles)
    assert page.tags.count("figcaption") == len(titles)
    assert ["1 of 3", "1 of 1", "0 of 2"] == [
        part.text for part in page.plots[0].iter("text") if " of " in (part.text or "")
    ]


NASTY = '<script>alert("x")</script> | [a](javascript:b) `c` \u202e*d*\n# e'


async def test_foreign_names_stay_text() -> None:
    raw = [{"tokens": {NASTY: {"calls": 1, "input": 1}}, "state": "accepted", "error": NASTY}]
    file = result_file(["B"], framework=NASTY, model=NASTY, generated_at=NASTY, raw=raw)
    found = await report(file)
    page = Page(html.render(found))
    assert page.safe()
    assert '<script>alert("x")</script> | [a](javascript:b) `c` *d* # e — Results' in page.text
    written = markdown.render(found)
    assert "<script>" not in written and "\u202e" not in written
    assert "](javascript" not in written.replace("\\]", "")
    assert headings(written)[0].startswith("# &lt;script&gt;")
    assert not [line for line in headings(written) if line.startswith("# e")]
    [row] = [line for line in written.splitlines() if line.startswith("| &lt;script")]
    assert len(re.findall(r"(?<!\\)\|", row)) == 7
