"""NOTIFY and LISTEN: one connection per process hears what the others commit."""

from __future__ import annotations

import logging
import os
import secrets
import select
import threading
from typing import cast

import psycopg

from deerflow.storage.postgres.database import PostgresDatabase
from deerflow.storage.postgres.driver import PostgresConnection, server_error
from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.driver import Connection, DatabaseError
from deerflow.storage.sql.notifier import Hear, News, Polling, decode, joined

_LOG = logging.getLogger(__name__)
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
"""Seconds between attempts to listen again."""


class PostgresNotifier:
    """Tells in the transaction itself, so what is heard is committed.

    Args:
        database: where to listen.
        channel: of the notifications, the same in all processes.
    """

    poll_seconds: float | None = None

    def __init__(self, database: PostgresDatabase, channel: str = "deerflow") -> None:
        self._database = database
        self._channel = channel
        self._sender = secrets.token_hex(8)
        self._hear: Hear | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._bell, self._ring = os.pipe()

    def start(self, hear: Hear) -> None:
        """See Notifier."""
        self._hear = hear

    def watch(self) -> None:
        """See Notifier. The first call begins to listen."""
        with self._lock:
            if self._thread is None and not self._closing:
                self._thread = threading.Thread(
                    target=self._main, name="deerflow-listener", daemon=True
                )
                self._thread.start()

    def announce(self, batch: Batch) -> None:
        """See Notifier."""
        for text in News.of(batch).encode(self._sender):
            batch.connection.execute("SELECT pg_notify(?, ?)", (self._channel, text))

    def tell(self, batch: Batch) -> None:
        """See Notifier. The server has told."""

    def poll(self, connection: Connection) -> bool:
        """See Notifier."""
        del connection
        return False

    def close(self) -> None:
        """See Notifier."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
            thread = self._thread
        os.write(self._ring, b"x")
        if thread is not None:
            thread.join()
        os.close(self._bell)
        os.close(self._ring)

    # --- the listener's thread ---

    def _main(self) -> None:
        pause, told = FIRST_PAUSE, False
        connection = self._database.connect()
        while not self._closing:
            try:
                connection.reopen()
                connection.execute(f'LISTEN "{self._channel}"')
                self._tell(connection, None)  # what was committed before
                pause, told = FIRST_PAUSE, False
                self._listen(connection)
            except DatabaseError as error:
                if not told:
                    _LOG.warning("Notifications of the database are interrupted: %s", error)
                told = True
                connection.close()
                select.select([self._bell], [], [], pause)
                pause = min(pause * 2, LONGEST_PAUSE)
        connection.close()

    def _listen(self, connection: PostgresConnection) -> None:
        while not self._closing:
            try:
                raw = connection.raw
                found = [decode(notify.payload) for notify in raw.notifies(timeout=0)]
                if not found:
                    select.select([raw, self._bell], [], [])
                    continue
            except psycopg.Error as error:
                raise server_error(error, lost=True) from error
            news = [item[1] for item in found if item is not None and item[0] != self._sender]
            if news:
                self._tell(connection, joined(news))

    def _tell(self, connection: PostgresConnection, news: News | None) -> None:
        if self._hear is not None:
            self._hear(connection, news)


class PostgresLooking(Polling):
    """Looks at every thread that is followed, now and then: for when nothing tells."""

    poll_seconds: float | None = 0.5

    def poll(self, connection: Connection) -> bool:
        """See Notifier. The writer's connection may have been lost while nobody wrote."""
        cast(PostgresConnection, connection).reopen()
        return True
