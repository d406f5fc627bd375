"""Webhooks: tells an address that a run has ended; signed, retried, and kept off inner networks."""

from __future__ import annotations

import uuid
from urllib.parse import urlsplit

from deerflow.config.storage import RuntimeConfig
from deerflow.errors import UsageError
from deerflow.storage.protocol import Delivery, RunRow, Storage

LONGEST_URL = 2_048


class Webhooks:
    """The outbox of webhooks."""

    def __init__(self, storage: Storage, config: RuntimeConfig) -> None:
        self._storage = storage
        self._config = config

    def check(self, url: str) -> None:
        """Refuse an address that can never be called. Raises UsageError."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or len(url) > LONGEST_URL:
            raise UsageError("A webhook is an http or https address.")

    async def add(self, user_id: str, run: RunRow, url: str) -> None:
        """Note that an address is to be called when the run has ended."""
        row = Delivery(uuid.uuid4().hex, user_id, run.thread_key, run.run_id, url)
        await self._storage.deliveries.add(row)
