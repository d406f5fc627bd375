"""Keeps the newest checkpoint of a thread alone: made whole first, so that nothing is missed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import DeltaChannelHistory
from langgraph.graph.message import (
    _messages_delta_reducer as messages_delta_reducer,  # pyright: ignore[reportPrivateUsage]
)

from deerflow.storage.checkpoints.address import Address, pack_id
from deerflow.storage.checkpoints.chain import COUNTERS
from deerflow.storage.checkpoints.histories import histories_of
from deerflow.storage.checkpoints.retention import ALL_ROWS, delete_rows_of, needed_by
from deerflow.storage.checkpoints.rows import Row, Rows
from deerflow.storage.checkpoints.serde import DeltaSnapshot
from deerflow.storage.checkpoints.storing import VALUE
from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.driver import Connection

REDUCERS: Mapping[str, Any] = {"messages": messages_delta_reducer}
"""Delta channels whose whole value can be told from their deltas; others keep their ancestors."""

_RUNNING = "SELECT 1 FROM runs WHERE thread = ? AND status = 'running' AND ended_at IS NULL"
_MOVE = (
    "INSERT INTO checkpoint_values (thread, ns, channel, checkpoint_id, thin, data)"
    " SELECT thread, ns, channel, ?, 0, data FROM checkpoint_values"
    " WHERE thread = ? AND ns = ? AND channel = ? AND checkpoint_id = ?"
    " ON CONFLICT (thread, ns, channel, checkpoint_id) DO NOTHING"
)
_REWRITE = (
    "UPDATE checkpoints SET parent = ?, data = ? WHERE thread = ? AND ns = ? AND checkpoint_id = ?"
)


def prune_work(rows: Rows, thread_key: str) -> Callable[[Batch], None]:
    """The operation that makes a thread's newest checkpoints whole and removes their ancestors.

    A thread whose run is being executed is left alone: whoever executes it refers to ancestors.
    """

    def work(batch: Batch) -> None:
        connection, thread = batch.connection, batch.thread(thread_key).id
        if connection.execute(_RUNNING, (thread,)).fetchone() is not None:
            return
        spaces = connection.execute(
            "SELECT DISTINCT ns FROM checkpoints WHERE thread = ?", (thread,)
        ).fetchall()
        for (ns,) in spaces:
            found = [rows.row(row) for row in connection.execute(ALL_ROWS, (thread, ns)).fetchall()]
            at = Address(thread_key, ns)
            head = _whole(connection, rows, at, found[-1])
            gone = {row.checkpoint_id for row in found[:-1]}
            gone -= needed_by(connection, rows, at, head)
            if head.parent in gone:
                head = replace(head, parent="")
            key = (thread, ns, pack_id(head.checkpoint_id))
            parent = pack_id(head.parent) if head.parent else None
            connection.execute(_REWRITE, (parent, rows.repack(head), *key))
            delete_rows_of(connection, thread, ns, gone)

    return work


def _whole(connection: Connection, rows: Rows, at: Address, head: Row) -> Row:
    """The checkpoint with all its large values at itself."""
    own, key = pack_id(head.checkpoint_id), (head.thread, at.ns)
    holders = dict(head.holders)
    for channel, holder in head.holders.items():
        if holder != head.checkpoint_id:
            connection.execute(_MOVE, (own, *key, channel, pack_id(holder)))
            holders[channel] = head.checkpoint_id
    counters = dict(cast("dict[str, Any]", head.metadata.get(COUNTERS) or {}))
    missing = [name for name in counters if name in REDUCERS and name not in holders]
    found = histories_of(rows, connection, at, head, missing) if missing else {}
    for name, history in found.items():
        value = DeltaSnapshot(_folded(name, history))
        connection.execute(VALUE, (*key, name, own, 0, rows.pack_large(value)))
        holders[name] = head.checkpoint_id
        del counters[name]
    metadata = {name: value for name, value in head.metadata.items() if name != COUNTERS}
    if counters:
        metadata[COUNTERS] = counters
    return replace(head, holders=holders, metadata=metadata)


def _folded(name: str, history: DeltaChannelHistory) -> Any:
    """The whole value of a delta channel."""
    empty = cast(Any, DeltaChannel(REDUCERS[name], list))
    channel = empty.from_checkpoint(history.get("seed"))
    channel.replay_writes(history["writes"])
    return channel.get()
