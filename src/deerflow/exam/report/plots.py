"""Plots as inline SVG: they need no script, follow the page's colours, and scale to any screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from deerflow.exam.calibration import Bin, Confusion

WIDTH = 360
"""Units of the drawing: a phone's width, so that letters keep their size there."""
_LABEL = 112
_ROW = 26
_SIDE = 260
MOST_POINTS = 40
_MARGIN = 40
_LONGEST = 17
"""Signs of a label that stand beside a bar; the whole one is in its title."""

STYLE = """
svg{display:block;width:100%;max-width:40rem;height:auto;margin:.5rem 0;color:inherit}
svg text{fill:currentColor;font:11px system-ui,sans-serif}
svg .quiet{fill:var(--quiet)} svg .axis{stroke:var(--line);stroke-width:1}
svg .bar{fill:var(--bar)} svg .whisker{stroke:currentColor;stroke-width:1.5}
svg .curve{fill:none;stroke:var(--bar);stroke-width:2} svg .dot{fill:var(--bar)}
svg .ideal{stroke:var(--quiet);stroke-dasharray:4 4}
svg .good{fill:var(--good)} svg .bad{fill:var(--bad)} svg .pale{fill:var(--pale)}
""".strip()


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture: its title, shown and read out, and its SVG."""

    title: str
    svg: str


@dataclass(frozen=True, slots=True)
class Bar:
    """One row of a bar chart.

    Attributes:
        label: in front of it.
        value: its length.
        told: written behind it.
        low, high: ends of a whisker, or None.
    """

    label: str
    value: float
    told: str
    low: float | None = None
    high: float | None = None


def bars(title: str, rows: Sequence[Bar], *, most: float = 0.0) -> Plot:
    """Horizontal bars with whiskers.

    Args:
        title: above the picture, and read out instead of it.
        rows: from the top.
        most: value at the right end; 0 takes the largest.
    """
    most = most or max((max(row.value, row.high or 0.0) for row in rows), default=0.0) or 1.0
    left, room = _LABEL, WIDTH - _LABEL - 92
    parts = [_line(left, 0, left, _ROW * len(rows), "axis")]
    for place, row in enumerate(rows):
        top = place * _ROW
        middle = top + _ROW / 2
        parts.append(_text(left - 6, middle + 4, _short(row.label), "", "end", row.label))
        length = room * min(1.0, max(0.0, row.value / most))
        parts.append(_box(left, top + 6, length, _ROW - 12, "bar"))
        if row.low is not None and row.high is not None:
            ends = [left + room * min(1.0, max(0.0, end / most)) for end in (row.low, row.high)]
            parts.append(_line(ends[0], middle, ends[1], middle, "whisker"))
            parts += [_line(end, middle - 4, end, middle + 4, "whisker") for end in ends]
        parts.append(_text(WIDTH - 2, middle + 4, row.told, "quiet", "end"))
    return _plot(title, _ROW * max(1, len(rows)), parts)


def matrix(title: str, table: Confusion) -> Plot:
    """Accepted against right, as four fields."""
    fields = [
        ("accepted, right", table.accepted_right, "good", 0, 0),
        ("accepted, wrong", table.accepted_wrong, "bad", 1, 0),
        ("not accepted, right", table.refused_right, "pale", 0, 1),
        ("not accepted, wrong", table.refused_wrong, "pale", 1, 1),
    ]
    parts: list[str] = []
    wide, high = WIDTH / 2, 64
    for label, count, kind, column, row in fields:
        x, y = column * wide, row * high
        parts.append(_box(x + 2, y + 2, wide - 4, high - 4, kind))
        parts.append(_text(x + wide / 2, y + 29, str(count), "", "middle"))
        parts.append(_text(x + wide / 2, y + 48, label, "", "middle"))
    return _plot(title, 2 * high, parts)


def reliability_curve(title: str, table: Sequence[Bin]) -> Plot:
    """Accuracy over confidence beside the diagonal of perfect calibration."""
    filled = [each for each in table if each.count]
    points = [(each.confidence, each.accuracy) for each in filled]
    told = [f"{each.count} answers" for each in filled]
    ideal = _line(*_at(0, 0), *_at(1, 1), "ideal")
    return _plane(title, ("confidence", "right"), points, told, [ideal])


def risk_curve(title: str, points: Sequence[tuple[float, float]]) -> Plot:
    """Share of wrong answers over the share of answers given; MOST_POINTS of them at most."""
    step = max(1, -(-len(points) // MOST_POINTS))
    points = points[::-step][::-1]
    told = [f"{coverage:.0%} given, {risk:.1%} wrong" for coverage, risk in points]
    return _plane(title, ("answers given", "wrong"), points, told, [])


def flips(title: str, names: Sequence[str], right: Mapping[str, Mapping[str, bool]]) -> Plot:
    """A field for each question and arm: right or wrong.

    Args:
        title: above the picture, and read out instead of it.
        names: of questions, from the top.
        right: by arm and question.
    """
    parts: list[str] = []
    wide = (WIDTH - _LABEL) / max(1, len(right))
    signs = max(2, int(wide / 7))
    for column, (arm, short) in enumerate(zip(right, _apart(list(right)), strict=True)):
        middle = _LABEL + (column + 0.5) * wide
        parts.append(_text(middle, 16, _short(short, signs), "", "middle", arm))
    for place, name in enumerate(names, 1):
        top = place * _ROW
        parts.append(_text(_LABEL - 6, top + 17, _short(name), "", "end", name))
        for column, arm in enumerate(right):
            x, correct = _LABEL + column * wide, right[arm].get(name, False)
            parts.append(_box(x + 1, top + 2, wide - 2, _ROW - 4, "good" if correct else "bad"))
            parts.append(_text(x + wide / 2, top + 17, "✓" if correct else "✗", "", "middle"))
    return _plot(title, _ROW * (len(names) + 1), parts)


def _plane(
    title: str,
    axes: tuple[str, str],
    points: Sequence[tuple[float, float]],
    told: Sequence[str],
    behind: Sequence[str],
) -> Plot:
    parts = [
        _line(*_at(0, 0), *_at(1, 0), "axis"),
        _line(*_at(0, 0), *_at(0, 1), "axis"),
        *behind,
    ]
    for share in (0.0, 0.5, 1.0):
        (x, y), (left, middle) = _at(share, 0), _at(0, share)
        parts.append(_text(x, y + 14, f"{share:.0%}", "quiet", "middle"))
        parts.append(_text(left - 5, middle + 4, f"{share:.0%}", "quiet", "end"))
    (x, y), (left, top) = _at(0.75, 0), _at(0, 1)
    parts.append(_text(x, y + 14, axes[0], "quiet", "middle"))
    parts.append(_text(left + 6, top + 2, axes[1], "quiet", "start"))
    places = [_at(*point) for point in points]
    line = " ".join(f"{_n(x)},{_n(y)}" for x, y in places)
    parts.append(f'<polyline class="curve" points="{line}"/>')
    for (x, y), text in zip(places, told, strict=True):
        name = f"<title>{escape(text)}</title>"
        parts.append(f'<circle class="dot" cx="{_n(x)}" cy="{_n(y)}" r="4">{name}</circle>')
    return _plot(title, _SIDE, parts)


def _at(x: float, y: float) -> tuple[float, float]:
    """A place in the plane of two shares."""
    inner = _SIDE - 2 * _MARGIN + 16
    return _MARGIN + x * (WIDTH - _MARGIN - 24), _SIDE - _MARGIN + 16 - y * inner


def _plot(title: str, height: float, parts: Sequence[str]) -> Plot:
    name = escape(title)
    return Plot(
        title,
        f'<svg viewBox="0 0 {WIDTH} {_n(height)}" role="img" aria-label="{name}">'
        f"<title>{name}</title>{''.join(parts)}</svg>",
    )


def _text(x: float, y: float, text: str, kind: str, anchor: str, whole: str = "") -> str:
    name = f"<title>{escape(whole)}</title>" if whole and whole != text else ""
    kind = f' class="{kind}"' if kind else ""
    return f'<text x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}"{kind}>{name}{escape(text)}</text>'


def _box(x: float, y: float, width: float, height: float, kind: str) -> str:
    size = f'width="{_n(max(0.0, width))}" height="{_n(height)}"'
    return f'<rect x="{_n(x)}" y="{_n(y)}" {size} rx="2" class="{kind}"/>'


def _line(x: float, y: float, to_x: float, to_y: float, kind: str) -> str:
    ends = f'x1="{_n(x)}" y1="{_n(y)}" x2="{_n(to_x)}" y2="{_n(to_y)}"'
    return f'<line {ends} class="{kind}"/>'


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _apart(names: Sequence[str]) -> list[str]:
    """Names without the words that all begin with."""
    words = [name.split(" ") for name in names]
    least = min((len(each) for each in words), default=1) - 1
    same = 0
    while same < least and len({each[same] for each in words}) == 1:
        same += 1
    return [" ".join(each[same:]) for each in words]


def _short(text: str, longest: int = _LONGEST) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
