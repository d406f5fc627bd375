"""What leads to the value of a delta channel: a stored value and the writes since."""

from __future__ import annotations

from collections.abc import Sequence

from langgraph.checkpoint.base import DeltaChannelHistory

from deerflow.storage.checkpoints.address import Address
from deerflow.storage.checkpoints.chain import Write
from deerflow.storage.checkpoints.rows import Row, Rows
from deerflow.storage.sql.driver import Connection


def histories_of(
    rows: Rows, connection: Connection, at: Address, row: Row, channels: Sequence[str]
) -> dict[str, DeltaChannelHistory]:
    """Walk the parents once for all channels, each as far as its nearest stored value."""
    steps: dict[str, list[list[Write]]] = {channel: [] for channel in channels}
    found: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}
    open_ = set(channels)
    for above in rows.ancestors(connection, at, row):
        writes = rows.writes(connection, at, above)
        for channel in list(open_):
            steps[channel].append([write for write in writes if write.channel == channel])
            if channel in above.inline or channel in above.holders:
                try:
                    found[channel]["seed"] = rows.value(connection, at, above, channel)
                except KeyError:
                    continue
                open_.discard(channel)
        if not open_:
            break
    for channel in channels:
        found[channel]["writes"] = [
            write.pending for step in reversed(steps[channel]) for write in step
        ]
    return found
