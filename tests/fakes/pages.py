"""A page of HTML read strictly: every tag closed, in order; what it shows, loads and runs."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "input", "link"}


@dataclass
class Page(HTMLParser):
    """Parsed with `Page.of`.

    Attributes:
        tags: names of elements in order.
        attributes: (tag, name, value) of all elements.
        text: what is between tags, outside of the style.
        plots: the SVG elements, each parsed as XML.
        rows: cells of table rows.
    """

    source: str
    tags: list[str] = field(default_factory=list)
    attributes: list[tuple[str, str, str]] = field(default_factory=list)
    text: str = ""
    plots: list[ET.Element] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[str] = []
        self.feed(self.source)
        self.close()
        assert self._open == [], self._open
        for part in self.source.split("<svg ")[1:]:
            svg = "<svg " + part.partition("</svg>")[0] + "</svg>"
            self.plots.append(ET.fromstring(svg))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self._open and self._open[-1] == tag, (tag, self._open)
        self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "style":
            return
        self.text += data
        if self._open and self._open[-1] in ("td", "th"):
            self.rows[-1][-1] += data

    def safe(self) -> bool:
        """Whether it runs nothing and fetches nothing."""
        loads = {"src", "href", "xlink:href", "action", "srcset", "data"}
        return not (
            {"script", "iframe", "object", "embed", "form", "link", "base", "img"} & set(self.tags)
            or [each for each in self.attributes if each[1] in loads or each[1].startswith("on")]
            or "url(" in self.source
            or "@import" in self.source
        )
