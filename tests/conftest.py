"""Options and fixtures that every test may use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings


@dataclass(frozen=True, slots=True)
class Scale:
    """How much a test with random or repeated work does: short by default, long with --soak."""

    soak: bool

    def __call__(self, short: int, long: int) -> int:
        """`short` in the ordinary suite, `long` in `make soak`."""
        return long if self.soak else short


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--soak", action="store_true", default=False, help="Run the long form of scaled tests."
    )
    parser.addoption(
        "--golden",
        action="store_true",
        default=False,
        help="Rewrite the golden files; other tests do not run.",
    )


def pytest_configure(config: pytest.Config) -> None:
    # Fixed examples in the ordinary suite, fresh ones in the long form; no time limit in either.
    settings.register_profile("short", deadline=None, derandomize=True, database=None)
    settings.register_profile("long", deadline=None, max_examples=1000, database=None)
    settings.load_profile("long" if config.getoption("--soak") else "short")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--golden"):
        items[:] = [item for item in items if "golden" in getattr(item, "fixturenames", ())]
    if config.getoption("--soak"):
        return
    skip = pytest.mark.skip(reason="long form only; run with --soak")
    for item in items:
        if item.get_closest_marker("soak") is not None:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def scale(request: pytest.FixtureRequest) -> Scale:
    """Call as `scale(short, long)` for the number of rounds."""
    return Scale(soak=bool(request.config.getoption("--soak")))


class Golden:
    """Compares text with a file below tests/golden, or rewrites the file with --golden."""

    def __init__(self, *, rewrite: bool) -> None:
        self._rewrite = rewrite

    def __call__(self, name: str, text: str) -> None:
        """Fail unless `text` is what tests/golden/`name` holds; `make golden` rewrites it."""
        file = Path(__file__).parent / "golden" / name
        if self._rewrite:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        kept = file.read_text(encoding="utf-8") if file.exists() else ""
        assert text == kept, f"differs from tests/golden/{name}; `make golden`, then read the diff"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Call as `golden("system_prompt.md", text)`."""
    return Golden(rewrite=bool(request.config.getoption("--golden")))
