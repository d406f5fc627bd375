"""The stores on a PostgreSQL server."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from deerflow.config.schema import DatabaseConfig
from deerflow.errors import ConfigError
from deerflow.storage.checkpoints.hybrid import HybridCheckpointer, ValueCache
from deerflow.storage.postgres.database import Place, PostgresDatabase
from deerflow.storage.postgres.listen import PostgresLooking, PostgresNotifier
from deerflow.storage.postgres.schema import prepare
from deerflow.storage.sql.notifier import Bridge
from deerflow.storage.sql.storage import SqlStorage

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

_DRIVER = re.compile(r"^postgres(ql)?(\+\w+)?://")
"""Addresses may name a driver, as SQLAlchemy's do; libpq knows none."""
OTHERS = 2
"""Connections besides the readers': the writer's and the listener's."""


class PostgresStorage(SqlStorage):
    """Everything in one schema of a PostgreSQL server.

    Args:
        place: where, its tables up to date (see `schema.prepare`).
        owner: who runs and claims what is started here; this process when empty.
        pool: connections in all.
        bridge: how processes hear of each other's commits; by NOTIFY when None.
        cache: for large values of checkpoints, none when None.
    """

    def __init__(
        self,
        place: Place,
        *,
        owner: str = "",
        pool: int = 5,
        bridge: Bridge | None = None,
        cache: ValueCache | None = None,
    ) -> None:
        database = PostgresDatabase(place)
        notifier = bridge(database, PostgresLooking()) if bridge else PostgresNotifier(database)
        super().__init__(
            "postgres",
            database,
            notifier,
            owner=owner,
            readers=max(1, pool - OTHERS),
        )
        self._cache = cache
        if cache is not None:
            self.saver: BaseCheckpointSaver[int] = HybridCheckpointer(
                self._writer, self._readers, self._untouched, cache
            )

    async def close(self) -> None:
        """See Storage."""
        try:
            await super().close()
        finally:
            if self._cache is not None:
                self._cache.close()


def place_of(config: DatabaseConfig) -> Place:
    """Where the configuration keeps its tables.

    Raises:
        ConfigError: it names no server.
    """
    if not config.postgres_url:
        raise ConfigError(
            ["database.backend is postgres, but database.postgres_url is not set."],
            cure="Set database.postgres_url, for example postgresql://user@host:5432/deerflow.",
        )
    url = _DRIVER.sub("postgresql://", config.postgres_url)
    return Place(url, config.postgres_schema, config.command_timeout, config.pool_recycle)


def open_postgres(
    config: DatabaseConfig, bridge: Bridge | None = None, cache: ValueCache | None = None
) -> PostgresStorage:
    """Open the storage, its tables made when that is needed; see PostgresStorage.

    Raises:
        ConfigError: no server is named.
        StorageError: see `prepare`.
    """
    place = place_of(config)
    prepare(place)
    return PostgresStorage(place, pool=config.pool_size, bridge=bridge, cache=cache)
