"""Documents of a small model: subject and title from the task, form by the ending of the file."""

from __future__ import annotations

import csv
import json

import pytest

from deerflow.models.compose import Parts, Writer, bare_request, heading
from fakes.llama import WrittenSession

PARAGRAPH = "Deer are large mammals. They live in forests and eat plants."
POINTS = "- Deer are shy.\n- Deer eat plants.\n- Deer live in herds.\n"
PARTS = Parts("Deer & co", "Deer are shy.", ("They eat plants.", 'They say "hello", softly.'))


@pytest.mark.parametrize(
    ("task", "name", "title", "subject"),
    [
        ("Write a short note about deer to notes.md", "notes.md", "Deer", "deer"),
        (
            "Write a short Markdown note about deer into the file hello.md in the outputs folder.",
            "hello.md",
            "Deer",
            "deer",
        ),
        (
            "Write report.md: a summary of the water cycle",
            "report.md",
            "Water cycle",
            "the water cycle",
        ),
        (
            "Create a checklist for moving house in checklist.md",
            "checklist.md",
            "Moving house",
            "moving house",
        ),
        (
            "Please write a guide to making tea, with three sections, and save it as tea.md",
            "tea.md",
            "Making tea",
            "making tea",
        ),
        ("Explain what a hash table is in hash_table.md.", "hash_table.md", "Hash table", ""),
        (
            "Write an article on bees to /mnt/user-data/outputs/x/bees.md",
            "bees.md",
            "Bees",
            "bees",
        ),
        ("Compare cats and dogs; write it to report.md", "report.md", "Compare cats and dogs", ""),
    ],
)
def test_title_and_subject(task: str, name: str, title: str, subject: str) -> None:
    assert heading(task, name) == (title, subject)


def test_the_file_is_no_part_of_the_request() -> None:
    assert bare_request("Write a poem on rain to poem.md.") == "Write a poem on rain"


def writer(*texts: str | Exception, small: bool = True) -> tuple[Writer, WrittenSession]:
    session = WrittenSession(list(texts))
    return Writer(session, small, 300, seed=1), session


def test_a_document_is_title_paragraph_and_points() -> None:
    write, session = writer(PARAGRAPH, POINTS)
    text = write.document("Write a note about deer to notes.md", "/mnt/user-data/outputs/notes.md")
    assert text == (
        f"# Deer\n\n{PARAGRAPH}\n\n## Key points\n\n"
        "- Deer are shy.\n- Deer eat plants.\n- Deer live in herds.\n"
    )
    assert all(asked["grammar"] for asked in session.asked)


def test_a_checklist_is_a_list() -> None:
    write, session = writer(POINTS)
    text = write.document("Create a checklist for moving house in list.md", "list.md")
    assert text.startswith("# Moving house\n\n- ")
    assert len(session.asked) == 1


def test_cut_and_repeated_words_are_left_out() -> None:
    long = "Deer " + "are very large animals and " * 8 + "x."
    write, _ = writer(
        f"Deer are shy. Deer are shy. {long[:201]} Deer eat", "- One.\n- One.\n- Two and a hal"
    )
    text = write.document("Write a note about deer to notes.md", "notes.md")
    assert text == "# Deer\n\nDeer are shy.\n\n## Key points\n\n- One.\n"


def test_no_words_give_no_file() -> None:
    write, _ = writer("", "")
    assert write.document("Write a note about deer to notes.md", "notes.md") == ""


def test_a_larger_model_writes_freely() -> None:
    write, session = writer("Here it is:\n```markdown\n# Deer\n\nShy.\n```\nEnjoy!", small=False)
    assert write.document("Write a note about deer to notes.md", "notes.md") == "# Deer\n\nShy.\n"
    assert session.asked[0]["grammar"] is None


def test_code_is_written_freely_by_any_model() -> None:
    write, _ = writer('```python\nprint("hi")\n```')
    assert write.document("Write hi.py that says hi", "hi.py") == 'print("hi")\n'


def test_every_ending_has_its_form() -> None:
    assert json.loads(PARTS.rendered("json"))["points"][1] == 'They say "hello", softly.'
    rows = list(csv.reader(PARTS.rendered("csv").splitlines()))
    assert rows == [["number", "point"], ["1", PARTS.points[0]], ["2", PARTS.points[1]]]
    assert "<h1>Deer &amp; co</h1>" in PARTS.rendered("html")
    assert PARTS.rendered("txt").startswith("Deer & co\n\nDeer are shy.\n\nKey points\n\n- They")
    assert PARTS.rendered("md").startswith("# Deer & co\n")
