"""What followers of this process are told when another one has committed."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from weakref import WeakSet

from deerflow.storage.follow import DeltaFollower, Dropped, Hub
from deerflow.storage.protocol import Delta
from deerflow.storage.sql.driver import Connection
from deerflow.storage.sql.notifier import News

_OF_THREAD = (
    "SELECT d.id, d.run_id, d.message_id, d.start, d.text FROM run_deltas d"
    " JOIN thread_keys k ON k.id = d.thread WHERE k.thread_key = ? AND d.id > ? ORDER BY d.id"
)
_RETIRED = "SELECT 1 FROM thread_keys WHERE thread_key = ? AND retired_at IS NOT NULL"


@dataclass(slots=True)
class _Read:
    """How far the deltas of a thread were read, and for whom."""

    last: int = 0
    served: WeakSet[DeltaFollower] = field(default_factory=WeakSet[DeltaFollower])


class Hearing:
    """Hands what others have committed to the hub.

    Args:
        hub: the followers.
        growing_ids: see Database; then a delta that was handed out is not read again.
    """

    def __init__(self, hub: Hub, *, growing_ids: bool) -> None:
        self._hub = hub
        self._growing = growing_ids
        self._lock = threading.Lock()
        self._read: dict[str, _Read] = {}

    def hear(self, connection: Connection, news: News | None) -> None:
        """Something was committed elsewhere; None = nobody knows in which thread."""
        hub = self._hub
        followed = hub.keys()
        keys = followed if news is None else [key for key in news.keys if key in followed]
        with self._lock:
            for key in [key for key in self._read if key not in followed]:
                del self._read[key]
            for key in keys:
                for follower in hub.event_followers(key):
                    follower.post(follower.look)
                if connection.execute(_RETIRED, (key,)).fetchone() is not None:
                    hub.end(key)
            for key, run_id, message_id in () if news is None else news.dropped:
                self._push(hub.delta_followers(key), [Dropped(run_id, message_id)])
            for key in keys:
                self._deltas(connection, key)

    def _deltas(self, connection: Connection, key: str) -> None:
        followers = self._hub.delta_followers(key)
        if not followers:
            return
        read = self._read.setdefault(key, _Read())
        if not self._growing or any(follower not in read.served for follower in followers):
            read.last = 0
        rows = connection.execute(_OF_THREAD, (key, read.last)).fetchall()
        read.served.update(followers)
        if rows:
            read.last = rows[-1][0]
            self._push(followers, [Delta(*row[1:]) for row in rows])

    @staticmethod
    def _push(followers: Iterable[DeltaFollower], deltas: list[Delta | Dropped]) -> None:
        for follower in followers:
            follower.post(follower.push, deltas)
