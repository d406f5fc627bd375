"""The report of several arms, as Markdown and as a page."""

from __future__ import annotations

import re

from deerflow.exam.compare import Arm, compare
from deerflow.exam.graded import Grading, grade_file
from deerflow.exam.report import html, markdown
from deerflow.exam.report.sections import Report
from deerflow.exam.report.several import report_of
from fakes.exams import KEYS, READING, result_file, six, told
from fakes.pages import Page


async def arm(name: str, *repeats: list[str], leaky: bool = False) -> Arm:
    raw = [told("accepted") for _ in KEYS]
    files = [result_file(each, raw=raw, config={"leaky": leaky}) for each in repeats]
    return Arm(name, tuple([await grade_file(file, six(), Grading(READING)) for file in files]))


async def report() -> Report:
    arms = [
        await arm("plain", ["C"] * 3, ["C"] * 3),
        await arm("checked", KEYS, KEYS),
        await arm("key seen", KEYS, leaky=True),
    ]
    return report_of(compare(six(), arms), "2026-01-01T00:00:00+00:00")


async def test_the_order_and_the_form_of_the_public_report() -> None:
    written = markdown.render(await report())
    assert written.startswith(
        "# Framework Comparison\n"
        "\n"
        "- Generated: 2026-01-01T00:00:00+00:00\n"
        "\n"
        "**key seen: The key had a way into these answers: they show a bound and compare with "
        "nothing else.**\n"
        "\n"
        "## Overall\n"
        "\n"
        "| Framework | Model | Overall | Questions |\n"
        "|---|---|---:|---:|\n"
        "| plain | m | 0.0% | 3 |\n"
        "| checked | m | 83.3% | 6 |\n"
        "\n"
        "## By subject\n"
        "\n"
        "| Framework | chinese | math | english | physics | chemistry | biology | history | "
        "geography |\n"
    )
    assert "| plain | — | 0.0% | — | 0.0% | — | — | — | — |\n" in written
    assert "| checked | — | 66.7% | — | 100.0% | — | — | 100.0% | — |\n" in written


async def test_what_can_be_concluded() -> None:
    written = markdown.render(await report())
    assert re.search(
        r"\| checked over plain \| \+100\.0 \| [+-][\d.]+ to \+[\d.]+ "
        r"\| 6 to 0 \| 0\.031 \| 0\.031 \|",
        written,
    )
    assert "1 of 1 pairs differ at 5% after correction." in written
    assert "With 6 questions an arm that loses none must win 6 for p < 0.05" in written.replace(
        "&lt;", "<"
    )
    assert "| plain | 2 | 0.0% | 0.0% to 0.0% | 0.0% | 0.0% to 39.0% |" in written
    assert "6 questions are right in some arms and wrong in others." in written
    assert "| math-001 | ✗ | ✓ |" in written
    assert "| checked | 24 | 200 (0.04 USD) | 200 (0.04 USD) | 200 (0.04 USD) | 1.0 |" in written
    assert "| plain | 12 | 200 (0.04 USD) | 200 (0.04 USD) | — | 1.0 |" in written
    assert "| plain | 0.0% | — | 100.0% | 0 | 0 |" in written


async def test_an_arm_that_saw_the_key_is_in_no_other_table_but_the_cost() -> None:
    found = await report()
    shown = [
        section.title
        for section in found.sections
        if section.table and any(row[0] == "key seen" for row in section.table.rows)
    ]
    assert shown == ["Cost", "Arms that saw the key"]


async def test_arms_that_agree_have_no_flips() -> None:
    arms = [await arm("one", KEYS), await arm("other", KEYS)]
    written = markdown.render(report_of(compare(six(), arms), ""))
    assert "All arms have the same questions right." in written
    assert "0 of 1 pairs differ" in written


async def test_one_arm_alone() -> None:
    written = markdown.render(report_of(compare(six(), [await arm("one", KEYS)]), ""))
    assert "## Pairs" not in written


async def test_the_page() -> None:
    found = await report()
    page = Page(html.render(found))
    assert page.safe()
    assert [part.title for part in found.sections if part.title not in page.text] == []
    titles = [plot.attrib["aria-label"] for plot in page.plots]
    assert titles[:3] == [
        f"Fully right in {name}, with 95 % intervals" for name in ("math", "physics", "history")
    ]
    assert "Strict mean score with 95 % intervals" in titles
    assert "Questions that some arms have right" in titles
    assert "Tokens per correct answer" in titles
    assert "Accepted against right, checked" in titles
    [flips] = [plot for plot in page.plots if plot.attrib["aria-label"].startswith("Questions")]
    signs = [part.text for part in flips.iter("text") if part.text in ("✓", "✗")]
    assert signs == ["✗", "✓"] * 6
    assert not re.search(r'(x|y|width|height|points)="[^"]*(nan|inf)', page.source)
