"""Each database in turn for tests of the saver."""

from collections.abc import AsyncIterator

import pytest

from fakes.postgres import place, shared_schema
from fakes.twin_threads import Pair, opener

__all__ = ["place", "shared_schema"]


@pytest.fixture(params=["sqlite", "postgres"])
async def pair(request: pytest.FixtureRequest) -> AsyncIterator[Pair]:
    """An empty pair on each database."""
    found = Pair(opener(request))
    yield found
    await found.storage.close()
