"""Think blocks are found wherever the stream splits them, and quoted tags stay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.models.thinktags import ThinkSplitter, split_think

CASES = [
    ("plain", "plain", ""),
    ("<think>a</think>b", "b", "a"),
    ("\n<think>\na\n</think>\n\nb", "b", "a"),
    ("<thinking>a</thinking>b", "b", "a"),
    ("<THINK>a</think>b", "b", "a"),
    ("<think></think>b", "b", ""),
    ("<think>a</think><think>c</think>b", "b", "a\n\nc"),
    ("b <think>a</think> c", "b  c", "a"),
    ("use `<think>` tags", "use `<think>` tags", ""),
    ("```\n<think>x</think>\n```\nend", "```\n<think>x</think>\n```\nend", ""),
    ("the <think> tag is odd", "the <think> tag is odd", ""),
    ("a < b and <b>bold</b>", "a < b and <b>bold</b>", ""),
    ("<think>only", "", "only"),
    ("List<System> x", "List<System> x", ""),
    ("plan without a start</think>\n\nb", "b", "plan without a start"),
    ("quoted `</think>` stays", "quoted `</think>` stays", ""),
    ("<thin", "<thin", ""),
]


@pytest.mark.parametrize(("text", "visible", "thinking"), CASES)
def test_whole_text(text: str, visible: str, thinking: str) -> None:
    assert split_think(text) == (visible, thinking)


@pytest.mark.parametrize(
    ("text", "visible", "thinking"), [c for c in CASES if "start<" not in c[0]]
)
@given(data=st.data())
def test_any_split_gives_the_same(
    text: str, visible: str, thinking: str, data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=6).map(sorted))
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    splitter = ThinkSplitter()
    pieces = [piece for part in parts for piece in splitter.feed(part)] + splitter.close()
    assert "".join(t for kind, t in pieces if kind == "text") == visible
    said = "".join(t for kind, t in pieces if kind == "reasoning")
    assert "".join(said.split()) == "".join(thinking.split())


def test_block_cut_by_the_length_limit_stays_hidden() -> None:
    assert split_think("b <think>secret", truncated=True) == ("b ", "secret")
