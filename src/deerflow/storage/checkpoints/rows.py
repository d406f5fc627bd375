"""Rows of checkpoints: how one is packed, written, found and read back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)

from deerflow.storage.checkpoints.address import Address, pack_id, unpack_id
from deerflow.storage.checkpoints.chain import Write, frozen, in_order
from deerflow.storage.checkpoints.serde import CompactSerde, DeltaSnapshot
from deerflow.storage.encoding import pack, unpack
from deerflow.storage.sql.driver import Connection

INLINE_BYTES = 128
"""Channel values up to this size stand in every checkpoint, larger ones are stored once."""

_COLUMNS = "c.thread, c.checkpoint_id, c.parent, c.run_id, c.data"
_FROM = "FROM checkpoints c JOIN thread_keys k ON k.id = c.thread"
_AT = f"{_FROM} WHERE k.thread_key = ? AND k.retired_at IS NULL AND c.ns = ?"
_NEWEST = f"SELECT {_COLUMNS} {_AT} ORDER BY c.checkpoint_id DESC LIMIT 1"
_EXACT = f"SELECT {_COLUMNS} {_AT} AND c.checkpoint_id = ?"
_KNOWN = ("v", "ts", "channel_versions", "versions_seen", "updated_channels")

_NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Packed:
    """A checkpoint ready to be written.

    Attributes:
        data: everything but the large values.
        large: channel → bytes of large values that this checkpoint is the first to hold; a
            snapshot is still a value, it is encoded in the writer's thread.
        holders: channel → id of the checkpoint that holds it, own ones included.
    """

    data: bytes
    large: dict[str, bytes | DeltaSnapshot]
    holders: dict[str, str]


@dataclass(frozen=True, slots=True)
class Row:
    """A checkpoint as it is stored, values not yet decoded.

    Attributes:
        thread: row id of the thread.
        checkpoint_id: its id.
        parent: id of its parent, "" at the root.
        run_id: run that wrote it, or None.
        body: the known fields of a checkpoint in order, then the unknown ones.
        inline: channel → bytes of small values.
        holders: channel → id of the checkpoint that holds its large value.
        metadata: as it was given, run_id excepted.
    """

    thread: int
    checkpoint_id: str
    parent: str
    run_id: str | None
    body: list[Any]
    inline: dict[str, bytes]
    holders: dict[str, str]
    metadata: dict[str, Any]


class Values(Protocol):
    """Where large channel values are read from."""

    def get(self, connection: Connection, at: Address, row: Row, channel: str) -> bytes | None:
        """Bytes of a value that the row refers to, None when it is not stored any more."""
        ...


class StoredValues:
    """Reads them from the database."""

    def get(self, connection: Connection, at: Address, row: Row, channel: str) -> bytes | None:
        """See Values."""
        found = connection.execute(
            "SELECT data FROM checkpoint_values WHERE thread = ? AND ns = ? AND channel = ?"
            " AND checkpoint_id = ?",
            (row.thread, at.ns, channel, pack_id(row.holders[channel])),
        ).fetchone()
        return None if found is None else found[0]


class Rows:
    """Packing and reading, with one serializer."""

    def __init__(self, serde: CompactSerde, values: Values | None = None) -> None:
        self._serde = serde
        self._values: Values = values or StoredValues()

    def pack(
        self,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        changed: Mapping[str, Any],
        held: Mapping[str, str],
    ) -> Packed:
        """Pack a checkpoint.

        Args:
            checkpoint: what LangGraph hands over.
            metadata: its metadata.
            changed: channels whose version moved.
            held: where the parent's large values are; an unchanged one is referred to, not stored
                again.
        """
        fields = cast("dict[str, Any]", checkpoint)
        inline: dict[str, bytes] = {}
        large: dict[str, bytes | DeltaSnapshot] = {}
        holders: dict[str, str] = {}
        for channel, value in checkpoint["channel_values"].items():
            if channel in held and channel not in changed:
                holders[channel] = held[channel]
                continue
            data = frozen(value) if isinstance(value, DeltaSnapshot) else self._serde.pack(value)
            if isinstance(data, bytes) and len(data) <= INLINE_BYTES:
                inline[channel] = data
            else:
                large[channel] = data
                holders[channel] = checkpoint["id"]
        left_out = {*_KNOWN, "id", "channel_values"}
        rest = {key: value for key, value in fields.items() if key not in left_out and value}
        known = {key: value for key, value in metadata.items() if key != "run_id"}
        body = [*(fields.get(key) for key in _KNOWN), rest]
        data = self._packed(checkpoint["id"], body, inline, holders, known)
        return Packed(data, large, holders)

    def repack(self, row: Row) -> bytes:
        """Stored form of a row that was changed."""
        return pack_row(
            self._packed(row.checkpoint_id, row.body, row.inline, row.holders, row.metadata)
        )

    def _packed(
        self,
        own: str,
        body: list[Any],
        inline: Mapping[str, bytes],
        holders: Mapping[str, str],
        metadata: Mapping[str, Any],
    ) -> bytes:
        places = {k: None if at == own else pack_id(at) for k, at in holders.items()}
        return self._serde.pack([body, inline, places, metadata])

    def pack_large(self, value: bytes | DeltaSnapshot) -> bytes:
        """Stored form of a large value."""
        return pack(value if isinstance(value, bytes) else self._serde.pack(value))

    def row(self, found: tuple[Any, ...]) -> Row:
        """Read the columns of a checkpoint."""
        thread, checkpoint_id, parent, run_id, data = found
        own = unpack_id(checkpoint_id)
        body, inline, places, metadata = self._serde.unpack(unpack_row(data))
        holders = {k: own if at is None else unpack_id(at) for k, at in places.items()}
        parent = "" if parent is None else unpack_id(parent)
        return Row(thread, own, parent, run_id, body, inline, holders, metadata)

    def find(self, connection: Connection, at: Address) -> Row | None:
        """The checkpoint at an address, the newest when it names none."""
        if at.checkpoint_id:
            values = (at.thread_key, at.ns, pack_id(at.checkpoint_id))
            found = connection.execute(_EXACT, values).fetchone()
        else:
            found = connection.execute(_NEWEST, (at.thread_key, at.ns)).fetchone()
        return None if found is None else self.row(found)

    def ancestors(self, connection: Connection, at: Address, row: Row) -> Iterator[Row]:
        """Parents of a row, nearest first, as far as they are stored."""
        parent = row.parent
        while parent:
            above = self.find(connection, Address(at.thread_key, at.ns, parent))
            if above is None:
                return
            yield above
            parent = above.parent

    def value(self, connection: Connection, at: Address, row: Row, channel: str) -> Any:
        """A stored channel value; KeyError when this checkpoint shows none (any more)."""
        if channel in row.inline:
            return self._serde.unpack(row.inline[channel])
        if channel not in row.holders:
            raise KeyError(channel)
        data = self._values.get(connection, at, row, channel)
        if data is None:  # a snapshot that was thinned out: its ancestors still tell it
            raise KeyError(channel)
        return self._serde.unpack(unpack(data))

    def values(
        self, connection: Connection, at: Address, row: Row, known: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Every stored channel value of a checkpoint, those at hand not read again."""
        found: dict[str, Any] = {}
        for channel in (*row.inline, *row.holders):
            if channel in known:
                found[channel] = known[channel]
                continue
            try:
                found[channel] = self.value(connection, at, row, channel)
            except KeyError:
                continue
        return found

    def writes(self, connection: Connection, at: Address, row: Row) -> list[Write]:
        """Writes stored on a checkpoint, in the order in which they apply."""
        rows = connection.execute(
            "SELECT task, path, data FROM checkpoint_writes"
            " WHERE thread = ? AND ns = ? AND checkpoint_id = ?",
            (row.thread, at.ns, pack_id(row.checkpoint_id)),
        ).fetchall()
        return in_order(
            write for task, path, data in rows for write in self.unpack_writes(task, path, data)
        )

    def pack_writes(self, writes: list[Write]) -> bytes:
        """Writes of one task."""
        return pack(self._serde.pack([[w.index, w.channel, w.value] for w in writes]))

    def unpack_writes(self, task: bytes | str, path: str, data: bytes) -> list[Write]:
        """What `pack_writes` was given."""
        task_id = unpack_id(task)
        found = self._serde.unpack(unpack(data))
        return [Write(path, task_id, *entry) for entry in found]

    def tuple_of(
        self,
        connection: Connection,
        at: Address,
        row: Row,
        writes: list[Write],
        known: Mapping[str, Any] = _NOTHING,
    ) -> CheckpointTuple:
        """A row as LangGraph reads it; `known` values need not be read."""
        *fields, rest = row.body
        checkpoint = cast(
            Checkpoint,
            {
                **dict(zip(_KNOWN, fields, strict=True)),
                **rest,
                "id": row.checkpoint_id,
                "channel_values": self.values(connection, at, row, known),
            },
        )
        metadata = dict(row.metadata)
        if row.run_id is not None:
            metadata["run_id"] = row.run_id
        parent = Address(at.thread_key, at.ns, row.parent).config() if row.parent else None
        return CheckpointTuple(
            Address(at.thread_key, at.ns, row.checkpoint_id).config(),
            checkpoint,
            cast(CheckpointMetadata, metadata),
            parent,
            [write.pending for write in writes],
        )

    def listing(
        self, config: RunnableConfig | None, before: RunnableConfig | None
    ) -> Callable[[Connection, int, int], list[CheckpointTuple]]:
        """A query for pages of checkpoints, newest first: (connection, offset, limit)."""
        where, values = _conditions(config, before)
        sql = (
            f"SELECT k.thread_key, c.ns, {_COLUMNS} {_FROM}"  # conditions are constants
            f" WHERE k.retired_at IS NULL{where}"
            " ORDER BY c.checkpoint_id DESC LIMIT ? OFFSET ?"
        )

        def query(connection: Connection, offset: int, limit: int) -> list[CheckpointTuple]:
            rows = connection.execute(sql, (*values, limit, offset)).fetchall()
            found: list[CheckpointTuple] = []
            for key, ns, *columns in rows:
                row = self.row(tuple(columns))
                at = Address(key, ns)
                writes = self.writes(connection, at, row)
                found.append(self.tuple_of(connection, at, row, writes))
            return found

        return query


def _conditions(
    config: RunnableConfig | None, before: RunnableConfig | None
) -> tuple[str, list[object]]:
    where, values = "", list[object]()
    wanted = config.get("configurable", {}) if config else {}
    for column, name in (("k.thread_key", "thread_id"), ("c.ns", "checkpoint_ns")):
        if wanted.get(name) is not None:
            where += f" AND {column} = ?"
            values.append(wanted[name])
    if wanted.get("checkpoint_id"):
        where += " AND c.checkpoint_id = ?"
        values.append(pack_id(wanted["checkpoint_id"]))
    limit = before.get("configurable", {}).get("checkpoint_id") if before else None
    if limit:
        where += " AND c.checkpoint_id < ?"
        values.append(pack_id(limit))
    return where, values


def pack_row(data: bytes) -> bytes:
    """Stored form of a packed checkpoint."""
    return pack(data)


def unpack_row(data: bytes) -> bytes:
    """What `pack_row` was given."""
    return unpack(data)
