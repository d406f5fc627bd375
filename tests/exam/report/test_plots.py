"""Plots: well-formed, inside their frame, and told in words too."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from deerflow.exam.calibration import Bin, Confusion, reliability, risk_coverage
from deerflow.exam.report.plots import (
    MOST_POINTS,
    WIDTH,
    Bar,
    Plot,
    bars,
    flips,
    matrix,
    reliability_curve,
    risk_curve,
)

STATED = [(0.9, True), (0.9, False), (0.6, True), (0.1, False)]
NASTY = "\"><script>&'</script>"
PLOTS = {
    "bars": bars(NASTY, [Bar(NASTY, 0.5, NASTY, 0.2, 1.4), Bar("b", -1.0, "")], most=1.0),
    "no bars": bars("none", []),
    "bars of nothing": bars("zero", [Bar("a", 0.0, "0")]),
    "matrix": matrix(NASTY, Confusion(1, 2, 3, 4)),
    "reliability": reliability_curve("r", reliability(STATED)),
    "no reliability": reliability_curve("r", reliability([])),
    "risk": risk_curve("r", risk_coverage(STATED)),
    "no risk": risk_curve("r", []),
    "flips": flips(NASTY, [NASTY, "b"], {NASTY: {NASTY: True}, "other": {"b": True}}),
    "no flips": flips("none", [], {}),
}


@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_is_well_formed_and_inside_its_frame(name: str) -> None:
    root = ET.fromstring(PLOTS[name].svg)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert (root.attrib["role"], width) == ("img", WIDTH)
    assert root.attrib["aria-label"] == root.findtext("title") == PLOTS[name].title
    assert "script" not in {element.tag for element in root.iter()}
    for element in root.iter():
        for key in ("x", "x1", "x2", "cx"):
            assert 0 <= float(element.get(key, "0")) <= width
        for key in ("y", "y1", "y2", "cy"):
            assert 0 <= float(element.get(key, "0")) <= height
        if element.tag == "rect":
            assert float(element.attrib["x"]) + float(element.attrib["width"]) <= width + 0.1
            assert float(element.attrib["y"]) + float(element.attrib["height"]) <= height + 0.1


def widths(plot: Plot) -> list[float]:
    return [float(each.attrib["width"]) for each in ET.fromstring(plot.svg).iter("rect")]


def test_bars_are_as_long_as_their_values() -> None:
    whole, half, none = widths(bars("b", [Bar("a", 2, ""), Bar("b", 1, ""), Bar("c", 0, "")]))
    assert (half, none) == (whole / 2, 0)
    assert widths(bars("b", [Bar("a", 0.5, "")], most=1.0)) == [whole / 2]


def test_the_matrix_shows_its_counts() -> None:
    texts = [each.text for each in ET.fromstring(PLOTS["matrix"].svg).iter("text")]
    assert texts[::2] == ["1", "2", "3", "4"]
    assert texts[1] == "accepted, right"


def test_a_perfect_forecast_lies_on_the_diagonal() -> None:
    table = [Bin(0, 0.5, 4, 0.25, 0.25), Bin(0.5, 1, 4, 0.75, 0.75)]
    root = ET.fromstring(reliability_curve("r", table).svg)
    [ideal] = [each for each in root.iter("line") if each.get("class") == "ideal"]
    x, y, to_x, to_y = (float(ideal.attrib[key]) for key in ("x1", "y1", "x2", "y2"))
    dots = [(float(e.attrib["cx"]), float(e.attrib["cy"])) for e in root.iter("circle")]
    assert len(dots) == 2
    for share, (at_x, at_y) in zip((0.25, 0.75), dots, strict=True):
        assert at_x == pytest.approx(x + share * (to_x - x), abs=0.11)
        assert at_y == pytest.approx(y + share * (to_y - y), abs=0.11)


def test_a_long_curve_keeps_its_end() -> None:
    def dots(points: list[tuple[float, float]]) -> list[str]:
        root = ET.fromstring(risk_curve("r", points).svg)
        return [each.attrib["cx"] for each in root.iter("circle")]

    points = [((n + 1) / 500, n / 1000) for n in range(500)]
    drawn = dots(points)
    assert 30 <= len(drawn) <= MOST_POINTS
    assert drawn[-1:] == dots(points[-1:])


def test_long_labels_are_cut_and_whole_in_their_title() -> None:
    label = "a-very-long-name-of-an-arm"
    root = ET.fromstring(bars("b", [Bar(label, 1, "")]).svg)
    [text] = [each for each in root.iter("text") if each.find("title") is not None]
    title = text.find("title")
    assert title is not None and title.text == label
    assert (title.tail or "").endswith("…")


def test_columns_leave_out_what_all_names_begin_with() -> None:
    right = {f"deerflow of mine {arm}": {"a": True} for arm in ("A0", "A3", "R2")}
    root = ET.fromstring(flips("f", ["a"], right).svg)
    heads = [title.tail for text in root.iter("text") for title in text.iter("title")]
    assert heads == ["A0", "A3", "R2"]
    same = ET.fromstring(flips("f", ["a"], {"x y": {}, "x": {}}).svg)
    assert [each.text for each in same.iter("text")][:2] == ["x y", "x"]
