from __future__ import annotations

from pathlib import Path

from deerflow import __version__
from deerflow.errors import StorageError
from fakes.gateway import gateway


async def test_health_needs_nothing_and_ready_needs_the_database(tmp_path: Path) -> None:
    async with gateway(tmp_path, auth=True) as served:
        health = await served.client.get("/health")
        good = await served.client.get("/ready")
        accounts = served.harness.storage.accounts

        class Gone:
            async def has_admin(self) -> bool:
                raise StorageError("The database does not answer.")

        served.harness.storage.accounts = Gone()  # type: ignore[assignment]
        bad = await served.client.get("/ready")
        still = await served.client.get("/health")
        served.harness.storage.accounts = accounts
        again = await served.client.get("/ready")
    assert health.json() == {"status": "healthy", "service": "deerflow", "version": __version__}
    assert (good.status_code, bad.status_code, again.status_code) == (200, 503, 200)
    assert (bad.headers["retry-after"], still.status_code) == ("5", 200)
