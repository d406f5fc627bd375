"""What several journeys share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fakes.serving import WorkerZygote, worker_zygote


@pytest.fixture(scope="session")
def zygote() -> Iterator[WorkerZygote]:
    """Forks processes; its imports take seconds, so there is one for all."""
    with worker_zygote() as running:
        yield running
