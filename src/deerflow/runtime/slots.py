"""Who may run now: a number of places in all and for each user, by priority, then in order."""

from __future__ import annotations

import bisect
from collections import Counter


class Slots:
    """Places of one process.

    Args:
        total: places in all.
        of_user: places that one user may take.
    """

    def __init__(self, total: int, of_user: int) -> None:
        self._total = total
        self._of_user = of_user
        self._waiting: list[tuple[int, int, str, str]] = []
        self._taken: dict[str, str] = {}
        self._users: Counter[str] = Counter()
        self._number = 0

    def wait(self, name: str, user_id: str, priority: int) -> None:
        """Stand in line; higher priority goes first."""
        self._number += 1
        bisect.insort(self._waiting, (-priority, self._number, name, user_id))

    def take(self) -> str | None:
        """Give a place to the first in line who may have one; None when nobody may."""
        if len(self._taken) >= self._total:
            return None
        for index, (_, _, name, user_id) in enumerate(self._waiting):
            if self._users[user_id] < self._of_user:
                del self._waiting[index]
                self._enter(name, user_id)
                return name
        return None

    def enter(self, name: str, user_id: str) -> bool:
        """Take a place at once, without standing in line; False when there is none."""
        if len(self._taken) >= self._total or self._users[user_id] >= self._of_user:
            return False
        self._enter(name, user_id)
        return True

    def free(self, name: str) -> None:
        """Give a place back; nothing when it has none."""
        user_id = self._taken.pop(name, None)
        if user_id is not None:
            self._users[user_id] -= 1
            if not self._users[user_id]:
                del self._users[user_id]

    def _enter(self, name: str, user_id: str) -> None:
        self._taken[name] = user_id
        self._users[user_id] += 1
