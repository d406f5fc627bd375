"""Approvals that two processes decide at once."""

import asyncio
from typing import Any

from deerflow.storage.protocol import ApprovalRow, Decision
from deerflow.storage.sql.storage import SqliteStorage


async def test_of_two_storages_that_decide_at_once_one_counts(opened: Any) -> None:
    storages: list[SqliteStorage] = [opened(), opened()]
    key = (await storages[0].threads.ensure("ann", "t1")).thread_key
    for number in range(20):
        row = ApprovalRow(f"a{number}", "ann", "t1", key, "r1", "", "m1", number, "bash", {})
        await storages[0].approvals.request(row)

        outcomes = await asyncio.gather(
            storages[0].approvals.decide("ann", row.approval_id, Decision("approved", "one", 1.0)),
            storages[1].approvals.decide("ann", row.approval_id, Decision("rejected", "two", 1.0)),
        )

        assert sorted(counts for _, counts in outcomes) == [False, True]
        assert outcomes[0][0] == outcomes[1][0]
    for storage in storages:
        await storage.close()
