"""Redis for tests: keys of their own on the server of this machine, removed afterwards."""

import secrets
from collections.abc import Iterator

import pytest
import redis

from deerflow.storage.redis.values import RedisValues

URL = "redis://127.0.0.1:6379"


def need_redis() -> redis.Redis:
    """A client; skips the test where no server answers."""
    client = redis.Redis.from_url(URL)
    try:
        client.ping()
    except redis.RedisError:
        pytest.skip("no Redis on 127.0.0.1:6379")
    return client


class CountedValues(RedisValues):
    """A cache that counts what it could give.

    Attributes:
        hits: answers with a value.
        prefix: of its keys.
    """

    def __init__(self, prefix: str, *, url: str = URL, most: int = 100) -> None:
        super().__init__(url, ttl_seconds=60, max_entries=most, prefix=prefix)
        self.prefix = prefix
        self.hits = 0

    def get(self, thread_key: str, field: str) -> bytes | None:
        """See ValueCache."""
        found = super().get(thread_key, field)
        self.hits += found is not None
        return found


@pytest.fixture
def cache() -> Iterator[CountedValues]:
    """An empty cache."""
    client = need_redis()
    prefix = f"test:{secrets.token_hex(6)}"
    yield CountedValues(prefix)
    for key in client.scan_iter(f"{prefix}*"):
        client.delete(key)
    client.close()
