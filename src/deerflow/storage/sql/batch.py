"""One transaction of the writer: the threads that it touched, what it tells followers."""

from __future__ import annotations

from dataclasses import dataclass, field

from deerflow.errors import ConflictError, ThreadGoneError
from deerflow.events import Event
from deerflow.storage.follow import Dropped
from deerflow.storage.protocol import Delta
from deerflow.storage.sql.dialect import SQLITE, Dialect
from deerflow.storage.sql.driver import Connection

GONE = "The thread was deleted."


@dataclass(slots=True)
class ThreadRef:
    """A thread inside a transaction.

    Attributes:
        id: its row in thread_keys.
        thread_id: the client's id, the key itself when no thread row exists.
        last_seq: highest event seq, this transaction's included.
    """

    id: int
    thread_id: str
    last_seq: int


def new_key(connection: Connection, key: str) -> int:
    """Register a thread's key; its row.

    Raises:
        ConflictError: the key was used before.
    """
    row = connection.execute(
        "INSERT INTO thread_keys (thread_key, last_seq) VALUES (?, 0)"
        " ON CONFLICT (thread_key) DO NOTHING RETURNING id",
        (key,),
    ).fetchone()
    if row is None:
        raise ConflictError("A thread with this key existed before.")
    return int(row[0])


@dataclass(frozen=True, slots=True)
class Mark:
    """Lengths of what a batch tells."""

    events: dict[str, int] = field(default_factory=dict[str, int])
    deltas: dict[str, int] = field(default_factory=dict[str, int])
    deleted: int = 0


@dataclass(slots=True)
class Batch:
    """State of one transaction. Thrown away when it is rolled back.

    Attributes:
        connection: the writer's.
        refs: threads by key.
        dialect: of the connection's database.
        events, deltas, deleted: what followers hear after the commit.
        checkpoint_bytes: of the newest checkpoint in it, 0 when there is none.
    """

    connection: Connection
    dialect: Dialect = SQLITE
    refs: dict[str, ThreadRef] = field(default_factory=dict[str, ThreadRef])
    events: dict[str, list[Event]] = field(default_factory=dict[str, list[Event]])
    deltas: dict[str, list[Delta | Dropped]] = field(
        default_factory=dict[str, list[Delta | Dropped]]
    )
    deleted: list[str] = field(default_factory=list[str])
    checkpoint_bytes: int = 0
    _counted: dict[int, int] = field(default_factory=dict[int, int])
    _held: set[str] = field(default_factory=set[str])

    def holds(self, worker_id: str) -> bool:
        """Whether a worker has its row; it keeps it until the transaction ends."""
        if worker_id not in self._held:
            sql = f"SELECT 1 FROM workers WHERE worker_id = ?{self.dialect.hold}"  # noqa: S608
            if self.connection.execute(sql, (worker_id,)).fetchone() is None:
                return False
            self._held.add(worker_id)
        return True

    def removed(self, worker_id: str) -> None:
        """The transaction itself has removed a worker."""
        self._held.discard(worker_id)

    def thread(self, key: str) -> ThreadRef:
        """The thread, its key registered when it is new.

        An operation asks for it before it looks at the thread's rows: where several writers are at
        work at once, this is what makes them wait for one another.

        Raises:
            ThreadGoneError: the key is retired.
        """
        found = self.refs.get(key)
        if found is None:
            found = self.refs[key] = self._load(key)
        return found

    def _load(self, key: str) -> ThreadRef:
        row = self.connection.execute(
            "SELECT k.id, t.thread_id, k.last_seq, k.retired_at FROM thread_keys k"
            " LEFT JOIN threads t ON t.id = k.id WHERE k.thread_key = ? /*pg FOR UPDATE OF k */",
            (key,),
        ).fetchone()
        if row is None:
            return ThreadRef(new_key(self.connection, key), key, 0)
        if row[3] is not None:
            raise ThreadGoneError(GONE)
        return ThreadRef(row[0], row[1] or key, row[2])

    def next_seq(self, ref: ThreadRef) -> int:
        """The thread's next seq; `save` writes the counter in the same transaction."""
        ref.last_seq += 1
        self._counted[ref.id] = ref.last_seq
        return ref.last_seq

    def save(self) -> None:
        """Write the counters that moved."""
        for id, last_seq in self._counted.items():
            self.connection.execute(
                "UPDATE thread_keys SET last_seq = ? WHERE id = ?", (last_seq, id)
            )
        self._counted.clear()

    def mark(self) -> Mark:
        """State before an operation that may be undone."""
        return Mark(
            {key: len(found) for key, found in self.events.items()},
            {key: len(found) for key, found in self.deltas.items()},
            len(self.deleted),
        )

    def undo(self, mark: Mark) -> None:
        """Back to the mark; threads are read again."""
        for key, events in self.events.items():
            del events[mark.events.get(key, 0) :]
        for key, deltas in self.deltas.items():
            del deltas[mark.deltas.get(key, 0) :]
        del self.deleted[mark.deleted :]
        self.refs.clear()
        self._counted.clear()
        self._held.clear()
