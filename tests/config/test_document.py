"""Lines of keys and items, duplicates, merges, broken text."""

from __future__ import annotations

from deerflow.config.document import read_document


def problems(text: str) -> list[tuple[int, str]]:
    return [(line, message) for line, _, message in read_document(text).problems]


def test_lines_of_keys_and_items() -> None:
    document = read_document("a: 1\nb:\n  - x\n  - c: 2\n    d: 3\n")
    assert document.data == {"a": 1, "b": ["x", {"c": 2, "d": 3}]}
    assert document.line(("a",)) == 1
    assert document.line(("b", 0)) == 3
    assert document.line(("b", 1, "d")) == 5
    assert document.line(("b", 1, "missing")) == 4


def test_every_duplicate_is_reported() -> None:
    found = problems("a: 1\nb: {x: 1, x: 2}\na: 2\na: 3\n")
    assert found == [
        (2, "duplicate key, first given in line 2"),
        (3, "duplicate key, first given in line 1"),
        (4, "duplicate key, first given in line 1"),
    ]


def test_anchors_and_merges() -> None:
    document = read_document("a: &x {p: 1, q: 2}\nb: *x\nc:\n  <<: *x\n  q: 3\n")
    assert document.data["b"] == {"p": 1, "q": 2}
    assert document.data["c"] == {"p": 1, "q": 3}
    assert document.problems == []


def test_an_anchor_inside_itself_is_a_problem() -> None:
    assert problems("a: &x\n  b: *x\n") == [(1, "an alias must not stand inside its own anchor")]


def test_broken_text_names_the_line() -> None:
    [(line, message)] = problems("a: 1\nb: [1, 2\nc: 3\n")
    assert line == 3
    assert message.startswith("broken YAML: ")


def test_a_file_that_is_no_mapping() -> None:
    assert problems("- a\n") == [(1, "the file must hold keys and values")]


def test_an_empty_file_is_empty() -> None:
    for text in ("", "# nothing\n", "---\n", "null\n"):
        document = read_document(text)
        assert document.data == {}
        assert document.problems == []


def test_dates_stay_text_and_tags_are_refused() -> None:
    document = read_document("a: 2026-11-30\nb: !!python/name:os.system ''\n")
    assert document.data["a"] == "2026-11-30"
    [(line, path, message)] = document.problems
    assert (line, path) == (2, ("b",))
    assert "is not supported" in message


def test_two_documents_are_refused() -> None:
    [(_, message)] = problems("a: 1\n---\nb: 2\n")
    assert message.startswith("broken YAML: ")


def test_extremes_are_problems_and_not_crashes() -> None:
    assert problems("a: " + "9" * 5000 + "\n") == [(1, "the number is too long")]
    layers = "".join(f"b{n + 1}: &b{n + 1} [{', '.join([f'*b{n}'] * 9)}]\n" for n in range(9))
    [(_, message)] = problems(f"b0: &b0 [1]\n{layers}")
    assert "aliases included" in message
    assert problems("a: " + "[" * 5000 + "]" * 5000) == [(1, "broken YAML: nested too deeply")]


def test_json_escapes_of_one_character_are_joined() -> None:
    assert read_document(r'a: "\ud83e\udd8c \ud83e"').data == {"a": "🦌 \ufffd"}
