"""Redis tells processes of each other's commits; the database stays the truth."""

from __future__ import annotations

import logging
import secrets
import threading
from contextlib import closing, suppress
from queue import Empty, SimpleQueue
from typing import Any, cast

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.driver import Connection, Database, DatabaseError
from deerflow.storage.sql.notifier import Bridge, Hear, News, Notifier, decode, empty, joined

_LOG = logging.getLogger(__name__)
TIMEOUT_SECONDS = 5.0
"""How long an answer of Redis may take."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
"""Seconds between attempts to reach Redis."""
CHANNEL = "deerflow:commits"
"""Keys of threads are unique everywhere, so all databases may share it."""
RARELY = 40
"""How much rarer the database is looked at while Redis is there."""
ALL = News(())
"""Says that anything may have been committed."""


def redis_bridge(url: str, connections: int | None, channel: str = CHANNEL) -> Bridge:
    """What tells the processes of a database by Redis."""
    return lambda database, without: RedisNotifier(url, database, without, channel, connections)


class RedisNotifier:
    """Publishes after each commit. While Redis is away, the database is looked at instead.

    Args:
        url: address of Redis.
        database: what the news are about.
        without: how processes hear of each other without Redis.
        channel: of the news, the same in all processes that share the database.
        connections: to Redis at most, None for any number.
    """

    def __init__(
        self,
        url: str,
        database: Database,
        without: Notifier,
        channel: str,
        connections: int | None = None,
    ) -> None:
        self._client: Any = cast(Any, redis.Redis).from_url(  # its types are partial
            url,
            socket_timeout=TIMEOUT_SECONDS,
            socket_connect_timeout=TIMEOUT_SECONDS,
            max_connections=connections,
            retry=Retry(NoBackoff(), 0),  # a lost connection is a gap, to be known
        )
        self._database = database
        self._without = without
        self._channel = channel
        self._sender = secrets.token_hex(8)
        self._own = f"{channel}:{self._sender}"
        self._outbox: SimpleQueue[News | None] = SimpleQueue()
        self._up = threading.Event()
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._hear: Hear | None = None
        self._publisher = threading.Thread(target=self._publish, name="deerflow-redis", daemon=True)
        self._listener = threading.Thread(
            target=self._listen, name="deerflow-listener", daemon=True
        )

    def start(self, hear: Hear) -> None:
        """See Notifier."""
        self._hear = hear
        self._publisher.start()

    def watch(self) -> None:
        """See Notifier. The first call subscribes."""
        with self._lock:
            if not (self._listener.ident or self._closing.is_set()):
                self._listener.start()

    def announce(self, batch: Batch) -> None:
        """See Notifier. What is not committed is not told."""

    def tell(self, batch: Batch) -> None:
        """See Notifier."""
        news = News.of(batch)
        if news.keys:
            self._outbox.put(news)

    @property
    def poll_seconds(self) -> float | None:
        """See Notifier. Rarely while Redis is there, for what another process could not tell it."""
        quick = self._without.poll_seconds
        return quick * RARELY if quick is not None and self._up.is_set() else quick

    def poll(self, connection: Connection) -> bool:
        """See Notifier."""
        return self._without.poll(connection)

    def close(self) -> None:
        """See Notifier."""
        if self._closing.is_set():
            return
        self._outbox.put(None)
        if self._publisher.ident:
            self._publisher.join()  # what was committed is told before the end
        with self._lock:
            self._closing.set()
        with suppress(redis.RedisError):
            self._client.publish(self._own, b"")  # wakes the listener
        if self._listener.ident:
            self._listener.join()
        self._client.close()

    # --- the publisher's thread ---

    def _publish(self) -> None:
        failed, ended = False, False
        while not ended:
            waiting: list[News] = []
            try:
                found = self._outbox.get(timeout=LONGEST_PAUSE if failed else None)
                while found is not None:
                    waiting.append(found)
                    found = self._outbox.get_nowait()
                ended = True
            except Empty:
                ended = False
            try:
                if failed or waiting:
                    self._send(ALL if failed else joined(waiting))
                failed = False
            except redis.RedisError as error:
                if not failed:
                    _LOG.warning("Redis cannot be told of events: %s", error)
                failed = True

    def _send(self, news: News) -> None:
        pipe = self._client.pipeline(transaction=False)
        for text in news.encode(self._sender) or [empty(self._sender)]:
            pipe.publish(self._channel, text)
        pipe.execute()

    # --- the listener's thread ---

    def _listen(self) -> None:
        pause, told = FIRST_PAUSE, False
        connection = self._database.connect(read_only=True)
        while not self._closing.is_set():
            try:
                self._follow(connection)
            except (redis.RedisError, DatabaseError) as error:
                was_up = self._up.is_set()
                self._up.clear()
                pause = FIRST_PAUSE if was_up else min(pause * 2, LONGEST_PAUSE)
                if was_up or not told:
                    _LOG.warning("Redis is away, events are read from the database: %s", error)
                told = True
                self._closing.wait(pause)
        connection.close()

    def _follow(self, connection: Connection) -> None:
        with closing(self._client.pubsub()) as inbox:
            inbox.subscribe(self._channel, self._own)
            while not self._closing.is_set():
                message: Any = inbox.get_message(timeout=TIMEOUT_SECONDS)
                if message is None:
                    inbox.ping()
                elif message["type"] == "subscribe":
                    self._tell(connection, None)  # what was committed before
                    self._up.set()
                elif message["type"] == "message":
                    self._heard(connection, message["data"])

    def _heard(self, connection: Connection, data: bytes) -> None:
        found = decode(data)
        if found is not None and found[0] != self._sender:
            self._tell(connection, found[1] if found[1].keys else None)

    def _tell(self, connection: Connection, news: News | None) -> None:
        if self._hear is not None:
            self._hear(connection, news)
