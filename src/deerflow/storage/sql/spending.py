"""What users have spent, in SQL: sums that every process adds to."""

from __future__ import annotations

from collections.abc import Awaitable

from deerflow.storage.protocol import Spent
from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.writer import Writer

_ADD = (
    "INSERT INTO spending (user_id, day, currency, tokens, money) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (user_id, day, currency) DO UPDATE"
    " SET tokens = spending.tokens + excluded.tokens, money = spending.money + excluded.money"
)
_OF = "SELECT currency, tokens, money FROM spending WHERE user_id = ? AND day = ?"


class SqlSpending:
    """Spending on the writer's queue. Tokens are on the row whose currency is empty."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def add(self, user_id: str, day: str, tokens: int, money: dict[str, float]) -> Awaitable[None]:
        """See Spending."""
        amounts = {"": 0.0, **Spent(tokens, money).money}
        rows = [
            (user_id, day, currency, 0 if currency else tokens, amount)
            for currency, amount in amounts.items()
        ]

        def work(batch: Batch) -> None:
            batch.connection.executemany(_ADD, rows)

        return self._writer.submit(work)

    def of(self, user_id: str, day: str) -> Awaitable[Spent]:
        """See Spending. On the writer's queue: a read that nobody waits for yet costs no turn."""

        def query(batch: Batch) -> Spent:
            rows = batch.connection.execute(_OF, (user_id, day)).fetchall()
            return Spent(
                sum(tokens for _, tokens, _ in rows),
                {currency: money for currency, _, money in rows if currency or money},
            )

        return self._writer.submit(query)
