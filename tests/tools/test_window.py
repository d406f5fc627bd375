"""Windows of lines, fed in pieces of any size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.tools.window import View, Window


def viewed(data: bytes, first: int = 1, last: int | None = None, **options: int) -> View | None:
    step = options.pop("step", 3)
    window = Window(first, last, options.pop("char", 1), options.pop("limit", 1000))
    for at in range(0, len(data) + 1, step):
        if window.feed(data[at : at + step], final=at + step > len(data)):
            break
    return window.view()


lines = st.lists(st.text(alphabet="ab界🦌", max_size=8), min_size=1, max_size=12)


@given(
    lines=lines,
    first=st.integers(1, 14),
    length=st.integers(1, 14),
    step=st.integers(1, 9),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_a_window_is_a_slice_of_the_lines(
    lines: list[str], first: int, length: int, step: int, end: str
) -> None:
    data = "".join(line + end for line in lines).encode()
    view = viewed(data, first, first + length - 1, step=step)
    wanted = lines[first - 1 : first - 1 + length]
    if first > len(lines):
        assert view is None
        return
    assert view is not None
    beyond = first - 1 + length > len(lines)
    assert view.text == "\n".join(wanted) + ("\n" if beyond else "")
    assert (view.first, view.last) == (first, first + len(wanted) - 1)
    assert view.next_line is None


@given(lines=lines, limit=st.integers(3, 40), step=st.integers(1, 9))
def test_going_on_as_told_yields_the_whole_file(lines: list[str], limit: int, step: int) -> None:
    text = "\n".join([*lines, "last"])
    parts: list[str] = []
    line, char = 1, 1
    for _ in range(300):
        view = viewed(text.encode(), line, None, char=char, limit=limit, step=step)
        assert view is not None
        assert len(view.text) <= limit
        parts.append(view.text)
        if view.next_line is None:
            break
        parts.append("" if view.next_char > 1 else "\n")
        line, char = view.next_line, view.next_char
    assert "".join(parts) == text


def test_one_endless_line_is_read_in_slices() -> None:
    data = b"x" * 1_213_479
    view = viewed(data, step=1 << 20, limit=50_000)
    assert view is not None
    assert (len(view.text), view.next_line, view.next_char) == (50_000, 1, 50_001)
    end = viewed(data, char=1_200_001, step=1 << 20, limit=50_000)
    assert end is not None
    assert (len(end.text), end.next_line) == (13_479, None)


@pytest.mark.parametrize(("data", "lines"), [(b"", 0), (b"a", 1), (b"a\n", 1), (b"a\nb", 2)])
def test_beyond_the_end(data: bytes, lines: int) -> None:
    window = Window(9, None, 1, 100)
    window.feed(data, final=True)
    assert window.view() is None
    assert window.lines == lines


def test_stray_bytes_a_byte_order_mark_and_split_characters() -> None:
    view = viewed("\ufeffé".encode() + b"\xff\xc3", step=1)
    assert view == View("é\\xff\\xc3", 1, 1, 2, None)
