"""A page in headless Chromium: what it asks for, what it complains about, what it shows."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, async_playwright
from playwright.async_api import Page as Tab

NAMES = ("chromium", "chromium-browser", "google-chrome")
PHONE, DESK = 390, 1280
"""Widths in CSS pixels."""
NOWHERE = "--host-resolver-rules=MAP * ~NOTFOUND"
"""No name resolves: nothing that a page names can be fetched, whatever its policy says."""

_DRAWINGS = """() => [...document.querySelectorAll('svg')].map(svg => {
  const size = node => {
    const box = node.getBoundingClientRect();
    return [box.width, box.height];
  };
  const frame = svg.getBoundingClientRect();
  const inside = node => {
    const box = node.getBoundingClientRect();
    return box.left >= frame.left - 1 && box.right <= frame.right + 1
      && box.top >= frame.top - 1 && box.bottom <= frame.bottom + 1;
  };
  const shown = node => node.checkVisibility({opacityProperty: true, visibilityProperty: true});
  const texts = [...svg.querySelectorAll('text')];
  const caption = svg.closest('figure')?.querySelector('figcaption');
  return {
    size: size(svg),
    caption: caption && shown(caption) && size(caption)[1] > 0 ? caption.innerText : '',
    texts: texts.map(node => node.lastChild.textContent),
    hidden: texts.filter(node => !shown(node) || size(node).some(side => side === 0))
      .map(node => node.textContent),
    outside: [...svg.querySelectorAll('text, rect, line, circle, polyline')]
      .filter(node => !inside(node)).map(node => node.outerHTML),
    ink: texts.map(node => getComputedStyle(node).fill),
    marks: svg.querySelectorAll('rect, circle').length,
  };
})"""


@dataclass(frozen=True, slots=True)
class Drawing:
    """One SVG as it is laid out.

    Attributes:
        size: width and height in CSS pixels.
        caption: what is read above it, "" when nothing is.
        texts: its labels.
        hidden: labels that take no room or are not shown.
        outside: parts that stick out of it.
        ink: colours of the labels.
        marks: bars, fields and dots.
    """

    size: tuple[float, float]
    caption: str
    texts: list[str]
    hidden: list[str]
    outside: list[str]
    ink: list[str]
    marks: int


@dataclass(slots=True)
class Shown:
    """A file that is open in a browser.

    Attributes:
        tab: of the browser.
        requests: addresses that were asked for, the file's own included.
        complaints: of the console, and errors of scripts.
    """

    tab: Tab
    requests: list[str] = field(default_factory=list[str])
    complaints: list[str] = field(default_factory=list[str])

    async def drawings(self) -> list[Drawing]:
        """All SVGs from the top."""
        found: list[dict[str, Any]] = await self.tab.evaluate(_DRAWINGS)
        return [Drawing(**{**each, "size": tuple(each["size"])}) for each in found]

    async def overhang(self, width: int) -> int:
        """CSS pixels by which the page is wider than a window of this width."""
        await self.tab.set_viewport_size({"width": width, "height": 800})
        return await self.tab.evaluate(
            "() => document.documentElement.scrollWidth - window.innerWidth"
        )

    async def colours(self, scheme: str) -> tuple[str, str]:
        """Background and ink in a light or dark scheme."""
        await self.tab.emulate_media(color_scheme=scheme)  # pyright: ignore[reportArgumentType]
        style = "() => { const s = getComputedStyle(document.body); return [s.%s, s.color]; }"
        back, ink = await self.tab.evaluate(style % "backgroundColor")
        return back, ink


@cache
def executable() -> str:
    """Path of the first Chromium that starts, "" when none does: some are stubs for a shop."""
    for path in filter(None, map(shutil.which, NAMES)):
        done = subprocess.run([path, "--version"], capture_output=True, timeout=60, check=False)
        if done.returncode == 0:
            return path
    return ""


@asynccontextmanager
async def browser() -> AsyncGenerator[Browser]:
    """Chromium of this machine; skips the test when there is none."""
    found = await asyncio.to_thread(executable)
    if not found:
        pytest.skip("no Chromium here; run scripts/services.sh, or: apt-get install chromium")
    async with async_playwright() as playwright:
        running = await playwright.chromium.launch(executable_path=found, args=[NOWHERE])
        try:
            yield running
        finally:
            await running.close()


@asynccontextmanager
async def opened(file: Path, *, width: int = DESK) -> AsyncGenerator[Shown]:
    """The file, by its absolute path, in a window of that width."""
    async with browser() as running:
        tab = await running.new_page(viewport={"width": width, "height": 800})
        shown = Shown(tab)
        tab.on("request", lambda request: shown.requests.append(request.url))
        tab.on("console", lambda message: shown.complaints.append(message.text))
        tab.on("pageerror", lambda error: shown.complaints.append(str(error)))
        await tab.goto(file.as_uri())
        yield shown
