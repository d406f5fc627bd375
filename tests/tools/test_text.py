"""Replacing text: exact, whatever the line ends, byte order marks and stray bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.errors import ToolError
from deerflow.tools.text import BOM, Style, decode, encode, replace, shown, style_of

texts = st.text(alphabet="ab\n界🦌 .*", max_size=40)
needles = st.text(alphabet="ab\n界", min_size=1, max_size=3)


@given(text=texts, old=needles, new=texts)
def test_as_str_replace_on_plain_text(text: str, old: str, new: str) -> None:
    if old == new:
        return
    count = text.count(old)
    if count == 0:
        with pytest.raises(ToolError, match="does not occur"):
            replace(text, old, new, everywhere=True)
        return
    done = replace(text, old, new, everywhere=True)
    assert (done.text, done.count) == (text.replace(old, new), count)
    if count > 1:
        with pytest.raises(ToolError, match=f"occurs {count} times"):
            replace(text, old, new)
    else:
        assert replace(text, old, new).text == done.text


@given(text=texts, old=needles, new=texts)
def test_crlf_survives(text: str, old: str, new: str) -> None:
    """Editing a CRLF file equals editing its LF twin and converting afterwards."""
    if old == new or old not in text or "\n" not in text:
        return
    edited = replace(text, old, new, everywhere=True).text
    windows = replace(text.replace("\n", "\r\n"), old, new, everywhere=True).text
    assert windows == edited.replace("\n", "\r\n")


@given(data=st.binary(max_size=60))
def test_bytes_survive(data: bytes) -> None:
    """Whatever the bytes around it, only the replaced text changes."""
    body = data.replace(b"#", b"").replace(b"\xef\xbb\xbf", b"").replace(b"\r\n", b"")
    edited = replace(decode(body + b"#x#" + body), "#x#", "é")
    assert encode(edited.text) == body + "é".encode() + body


@given(text=texts)
def test_a_byte_order_mark_survives(text: str) -> None:
    assert replace(f"{BOM}#{text}", "#", "").text == BOM + text


def test_mixed_line_ends_match_and_keep_the_majority() -> None:
    text = "a\r\nb\nc\r\nd\r\n"
    assert replace(text, "a\nb\nc", "x\ny").text == "x\r\ny\r\nd\r\n"
    assert replace("a\r\nb\nc\nd\n", "a\nb", "x\ny").text == "x\ny\nc\nd\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("", "x", "`old` is empty"),
        (BOM, "x", "`old` is empty"),
        ("b", "b", "are the same"),
        ("zz", "x", "does not occur"),
        ("b", "x", r"occurs 3 times \(lines 2, 4, 5\)"),
        ("def  f(x):", "x", r"Line 1 \(it differs in blanks or indentation\): def f\(x\):"),
        ("return a + c", "x", r"Line 3 \(the nearest line\): +return a - c"),
    ],
)
def test_errors_say_where_and_what_to_do(old: str, new: str, message: str) -> None:
    text = "def f(x):\nb\n    return a - c\nb\nb\n"
    with pytest.raises(ToolError, match=message) as caught:
        replace(text, old, new)
    assert caught.value.cure


def test_many_lines_of_near_misses_are_named_without_a_list_of_all() -> None:
    with pytest.raises(ToolError, match=r"occurs 1000 times \(lines 1, 1, 1, 1, 1, …\)"):
        replace("ab" * 1000, "ab", "x")


def test_a_long_hostile_text_takes_linear_time() -> None:
    text = "a" * 400_000
    with pytest.raises(ToolError, match="does not occur"):
        replace(text, "a" * 20_000 + "\nb", "x")


def test_half_characters_are_refused() -> None:
    with pytest.raises(ToolError, match="half a character"):
        encode("a\ud83eb")


def test_stray_bytes_and_nuls_are_shown() -> None:
    assert shown(decode(b"a\xff\xe9\0 \xc3\xa9")) == ("a\\xff\\xe9\\x00 é", 2)


def test_styles() -> None:
    assert style_of(f"{BOM}a\r\nb") == Style(bom=True, crlf=True)
    assert style_of("a\nb\r\n") == Style()
    assert Style(bom=True, crlf=True).dress("a\nb\r\n") == f"{BOM}a\r\nb\r\n"
    assert Style().dress(f"{BOM}a\r\n") == f"{BOM}a\r\n"


@pytest.mark.parametrize(
    ("text", "new"), [("x" * 2_000_000, "y" * 1000), ("x" * 600_000, "z")], ids=["size", "places"]
)
def test_replacing_cannot_fill_memory(text: str, new: str) -> None:
    with pytest.raises(ToolError, match="Nothing was changed") as refused:
        replace(text, "x", new, everywhere=True)
    assert "sed" in refused.value.cure
    with pytest.raises(ToolError, match="occurs 200 times"):
        replace(text[:2600], "x" * 13, new)
