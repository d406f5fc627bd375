"""Large values of checkpoints in Redis: plain bytes, for a while, of the threads used last."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

T = TypeVar("T")
_LOG = logging.getLogger(__name__)
PREFIX = "deerflow:checkpoints"
"""Keys of threads are unique everywhere, so all databases may share it."""
TIMEOUT_SECONDS = 0.5
"""How long an answer may take; the database has it as well."""
PAUSE_SECONDS = 5.0
"""How long a Redis that did not answer is left alone."""


class RedisValues:
    """A hash per thread with the newest value of each channel.

    Args:
        url: address of Redis.
        ttl_seconds: a thread goes so long after its last value was put.
        max_entries: threads kept; the one whose value is oldest goes first.
        prefix: of all keys.
    """

    def __init__(
        self, url: str, *, ttl_seconds: int, max_entries: int, prefix: str = PREFIX
    ) -> None:
        self._client: Any = cast(Any, redis.Redis).from_url(  # its types are partial
            url,
            socket_timeout=TIMEOUT_SECONDS,
            socket_connect_timeout=TIMEOUT_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )
        self._ttl = ttl_seconds
        self._most = max_entries
        self._prefix = prefix
        self._away_until = 0.0
        self._told = False

    def get(self, thread_key: str, field: str) -> bytes | None:
        """See ValueCache."""
        return self._try(lambda: self._client.hget(self._key(thread_key), field), None)

    def put(self, thread_key: str, field: str, data: bytes) -> None:
        """See ValueCache."""
        self._try(lambda: self._put(thread_key, field, data), None)

    def drop(self, thread_keys: Sequence[str]) -> None:
        """See ValueCache."""
        self._try(lambda: self._drop(thread_keys), None)

    def close(self) -> None:
        """See ValueCache."""
        self._client.close()

    def _put(self, thread_key: str, field: str, data: bytes) -> None:
        key, pipe = self._key(thread_key), self._client.pipeline()
        pipe.hset(key, field, data)
        pipe.expire(key, self._ttl)
        pipe.zadd(self._prefix, {thread_key: time.time()})
        pipe.zrange(self._prefix, 0, -self._most - 1)
        old = [name.decode() for name in pipe.execute()[-1]]
        if old:
            self._drop(old)

    def _drop(self, thread_keys: Sequence[str]) -> None:
        pipe = self._client.pipeline()
        pipe.delete(*(self._key(key) for key in thread_keys))
        pipe.zrem(self._prefix, *thread_keys)
        pipe.execute()

    def _key(self, thread_key: str) -> str:
        return f"{self._prefix}:{thread_key}"

    def _try(self, call: Callable[[], T], other: T) -> T:
        """The answer of Redis; the other one while it is away, said once."""
        if time.monotonic() < self._away_until:
            return other
        try:
            found = call()
        except redis.RedisError as error:
            self._away_until = time.monotonic() + PAUSE_SECONDS
            if not self._told:
                _LOG.warning("Redis is away, checkpoints come from the database alone: %s", error)
            self._told = True
            return other
        self._told = False
        return found
