"""Numbers in reports, foreign names, and names of files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.exam.accounts import Spent
from deerflow.exam.report.text import (
    cell,
    file_name,
    money,
    number,
    p_value,
    per,
    percent,
    plain,
    points,
    price,
)


def test_numbers() -> None:
    assert (percent(0.3333), percent(1.5), percent(None)) == ("33.3%", "150.0%", "—")
    assert (number(0.12345), number(None)) == ("0.123", "—")
    assert (points(0.05), points(-0.05)) == ("+5.0", "-5.0")
    assert (p_value(0.0004), p_value(0.03125)) == ("< 0.001", "0.031")
    assert (per(12_345, 10), per(5, 0)) == ("1,234", "—")
    assert money({"USD": 3.0, "EUR": 1.0}, 4) == "0.25 EUR, 0.75 USD"
    assert (money({}), money({"USD": 1.0}, 0)) == ("—", "—")
    assert price(Spent(1, 90, 10, cost={"USD": 1.0}), 2) == "50 (0.5 USD)"
    assert (price(Spent(1, 90, 10), 2), price(Spent(1, 90, 10), 0)) == ("50", "—")


def test_plain_text_is_one_short_line() -> None:
    assert plain("a\n\tb\u202e\x1b[0m\ud800c") == "a b [0m c"
    assert plain("x" * 201) == "x" * 200 + "…"
    assert plain("x" * 200) == "x" * 200


def test_cells() -> None:
    assert cell("a|b `c` [d](e) *f* <g>\\") == "a\\|b \\`c\\` \\[d\\](e) \\*f\\* &lt;g&gt;\\\\"
    assert cell("multiple_choice, 5 m/s^2") == "multiple_choice, 5 m/s^2"


@pytest.mark.parametrize("name", ["deerflow", "deerflow-A3", "GPT_4.1+tools", "深流"])
def test_an_ordinary_name_stays(name: str) -> None:
    assert file_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../../etc/passwd", "a/b", "a\\b", "-rf", ".hidden", "a\x00b", "深" * 300],
)
def test_any_other_name_is_changed(name: str) -> None:
    assert file_name(name) != name
    assert file_name(name) == file_name(name)


@given(st.text(max_size=300))
def test_every_name_is_one_safe_part_of_a_path(name: str) -> None:
    found = file_name(name)
    assert found and found[0] not in ".-" and os.sep not in found and "\\" not in found
    assert len(os.fsencode(found + ".html")) <= 255
    assert Path("reports", found).parent == Path("reports")
    assert found.isprintable() and " " not in found


def test_names_that_look_alike_are_told_apart() -> None:
    assert len({file_name(name) for name in ("a/b", "a b", "a-b", "a\\b", "a//b")}) == 5
