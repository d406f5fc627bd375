"""How processes that share a database hear of each other's commits: the seam.

In one process the writer tells its followers itself. Another process is only told that there is
something, and reads it from the database: nothing that is lost on the way is lost for good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

import orjson

from deerflow.storage.follow import Dropped
from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.driver import Connection, Database

T = TypeVar("T")
Hear = Callable[[Connection, "News | None"], None]
"""Called from any thread with a connection to read with; None = anything may have happened."""

POLL_SECONDS = 0.05
"""How often followers on SQLite learn of what another process committed."""


@dataclass(frozen=True, slots=True)
class News:
    """Threads in which something was committed.

    Attributes:
        keys: their keys.
        dropped: messages whose deltas went, by key.
    """

    keys: tuple[str, ...]
    dropped: tuple[tuple[str, str, str], ...] = ()

    @classmethod
    def of(cls, batch: Batch) -> News:
        """What a transaction has to tell."""
        keys = dict.fromkeys((*batch.events, *batch.deltas, *batch.deleted))
        dropped = [
            (key, found.run_id, found.message_id)
            for key, deltas in batch.deltas.items()
            for found in deltas
            if isinstance(found, Dropped)
        ]
        return cls(tuple(keys), tuple(dropped))

    def encode(self, sender: str) -> list[str]:
        """Messages of less than 8,000 bytes, PostgreSQL's limit; `sender` knows its own again."""
        return [
            orjson.dumps([sender, keys, dropped]).decode()
            for keys, dropped in (
                *((part, ()) for part in _parts(self.keys, 100)),
                *((_keys(part), part) for part in _parts(self.dropped, 20)),
            )
        ]


def _keys(dropped: Iterable[tuple[str, str, str]]) -> tuple[str, ...]:
    return tuple({key: None for key, _, _ in dropped})


def _parts(values: tuple[T, ...], size: int) -> list[tuple[T, ...]]:
    return [values[at : at + size] for at in range(0, len(values), size)]


def decode(text: str | bytes) -> tuple[str, News] | None:
    """Sender and news of a message, None for one that this version does not understand."""
    try:
        sender, keys, dropped = orjson.loads(text)
        return str(sender), News(tuple(keys), tuple((a, b, c) for a, b, c in dropped))
    except (ValueError, TypeError):
        return None


def empty(sender: str) -> str:
    """A message of news without keys."""
    return orjson.dumps([sender, (), ()]).decode()


def joined(news: Iterable[News]) -> News:
    """Several news as one."""
    found = list(news)
    keys = dict.fromkeys(key for item in found for key in item.keys)
    return News(tuple(keys), tuple(gone for item in found for gone in item.dropped))


class Notifier(Protocol):
    """Tells other processes of commits, and this one of theirs."""

    def start(self, hear: Hear) -> None:
        """Whom to call; nothing is listened to before `watch`."""
        ...

    def watch(self) -> None:
        """Somebody follows now."""
        ...

    def announce(self, batch: Batch) -> None:
        """Tell inside the transaction, just before it is committed."""
        ...

    def tell(self, batch: Batch) -> None:
        """Tell of what is committed; returns at once."""
        ...

    @property
    def poll_seconds(self) -> float | None:
        """How often the writer's thread is to `poll` while somebody follows; None for never."""
        ...

    def poll(self, connection: Connection) -> bool:
        """Whether another connection has committed since the last time."""
        ...

    def close(self) -> None:
        """Stop; nothing is heard when it returns."""
        ...


Bridge = Callable[[Database, Notifier], Notifier]
"""Makes another notifier for a database, with the one to go on with when it fails."""


class Polling:
    """SQLite: a counter of the file says that another connection has committed."""

    poll_seconds: float | None = POLL_SECONDS

    def __init__(self) -> None:
        self._seen: int | None = None

    def start(self, hear: Hear) -> None:
        """See Notifier. The writer hears for it."""

    def watch(self) -> None:
        """See Notifier."""

    def announce(self, batch: Batch) -> None:
        """See Notifier. The commit itself says it."""

    def tell(self, batch: Batch) -> None:
        """See Notifier. The commit itself says it."""

    def poll(self, connection: Connection) -> bool:
        """See Notifier (sqlite.org/pragma.html#pragma_data_version)."""
        seen = cast(int, connection.execute("PRAGMA data_version").fetchone()[0])
        changed, self._seen = self._seen not in (None, seen), seen
        return changed

    def close(self) -> None:
        """See Notifier."""
