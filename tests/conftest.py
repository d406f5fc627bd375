"""Options and fixtures that every test may use."""

from __future__ import annotations

from dataclasses import dataclass

import pytest


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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
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
