"""Which files a task asks for."""

import pytest

from deerflow.agent.deliverables import missing_files, requested_files


@pytest.mark.parametrize(
    ("task", "names"),
    [
        ("Write a note to notes.md", ("notes.md",)),
        ("Summarise data.csv", ()),
        ("Read a.json and write report.md", ("report.md",)),
        ("save it in out/x.md", ("out/x.md",)),
        ("Produce /mnt/user-data/outputs/r.md from data.csv", ("r.md",)),
        ("Compare a.csv with b.csv", ()),
        ("Visit https://example.org/a.html", ()),
        ("Create report.md, summary.json and plot.png", ("report.md", "summary.json", "plot.png")),
        ("Fix the bug in main.py", ()),
        ("把结果写入 报告.md", ("报告.md",)),
        ("report.md", ("report.md",)),
        ("Convert a.csv to b.xlsx", ("b.xlsx",)),
        ("Save the result as table.csv.", ("table.csv",)),
        ("What is 2 + 2?", ()),
        ("Mail it to me@example.org", ()),
        ("Write report.md twice: report.md", ("report.md",)),
    ],
)
def test_requested_files(task: str, names: tuple[str, ...]) -> None:
    assert requested_files(task) == names


def test_files_of_the_thread_are_sources() -> None:
    assert requested_files("Put data.csv into table.md", {"data.csv"}) == ("table.md",)


def test_missing_means_absent_empty_or_outside(tmp_path) -> None:  # type: ignore[no-untyped-def]
    outputs = tmp_path / "outputs"
    outputs.mkdir()
    (outputs / "full.md").write_text("x")
    (outputs / "empty.md").touch()
    (tmp_path / "secret.md").write_text("x")
    (outputs / "link.md").symlink_to(tmp_path / "secret.md")
    names = ["full.md", "empty.md", "absent.md", "link.md", "../secret.md"]
    assert missing_files(outputs, names) == ["empty.md", "absent.md", "link.md", "../secret.md"]
