"""What the databases do not say alike: the few expressions that differ, in one place each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dialect:
    """Expressions of one database.

    Attributes:
        now: the database's clock, seconds since 1970 as a float.
        hold: appended to a SELECT so that the row stays until the end of the transaction.
        local: every process that opens it runs on this machine.
    """

    now: str
    hold: str
    local: bool


SQLITE = Dialect(now="unixepoch('subsec')", hold="", local=True)
"""One writer at a time (`BEGIN IMMEDIATE`), so nothing needs a lock on a row."""
POSTGRES = Dialect(
    now="CAST(extract(epoch FROM clock_timestamp()) AS double precision)",
    hold=" FOR KEY SHARE",
    local=False,
)
