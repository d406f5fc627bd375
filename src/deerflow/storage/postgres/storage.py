"""The stores on a PostgreSQL server."""

from __future__ import annotations

from deerflow.config.schema import DatabaseConfig
from deerflow.errors import ConfigError
from deerflow.storage.postgres.database import Place, PostgresDatabase
from deerflow.storage.postgres.listen import PostgresNotifier
from deerflow.storage.postgres.schema import prepare
from deerflow.storage.sql.notifier import Notifier
from deerflow.storage.sql.storage import SqlStorage

OTHERS = 2
"""Connections besides the readers': the writer's and the listener's."""


class PostgresStorage(SqlStorage):
    """Everything in one schema of a PostgreSQL server.

    Args:
        place: where, its tables up to date (see `schema.prepare`).
        owner: who runs and claims what is started here; this process when empty.
        pool: connections in all.
        notifier: how processes hear of each other's commits; by NOTIFY when None.
    """

    def __init__(
        self, place: Place, *, owner: str = "", pool: int = 5, notifier: Notifier | None = None
    ) -> None:
        database = PostgresDatabase(place)
        super().__init__(
            "postgres",
            database,
            notifier or PostgresNotifier(database),
            owner=owner,
            readers=max(1, pool - OTHERS),
        )


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
    return Place(
        config.postgres_url, config.postgres_schema, config.command_timeout, config.pool_recycle
    )


def open_postgres(config: DatabaseConfig) -> PostgresStorage:
    """Open the storage, its tables made when that is needed.

    Raises:
        ConfigError: no server is named.
        StorageError: see `prepare`.
    """
    place = place_of(config)
    prepare(place)
    return PostgresStorage(place, pool=config.pool_size)
