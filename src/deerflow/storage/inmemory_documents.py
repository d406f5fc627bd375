"""Documents in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deerflow.errors import ConflictError
from deerflow.storage.accounts import AssistantRow, FeedbackRow
from deerflow.storage.encoding import copied
from deerflow.storage.inmemory_tables import Tables


class MemoryDocuments:
    """Documents in memory; feedback lies in the shared tables because it goes with its thread."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._preferences: dict[str, dict[str, Any]] = {}
        self._assistants: dict[tuple[str, str], list[AssistantRow]] = {}

    async def preference(self, user_id: str, name: str) -> Any:
        """See Documents."""
        return copied(self._preferences.get(user_id, {}).get(name))

    async def preferences(self, user_id: str) -> dict[str, Any]:
        """See Documents."""
        return copied(self._preferences.get(user_id, {}))

    async def prefer(self, user_id: str, name: str, value: Any) -> None:
        """See Documents."""
        kept = self._preferences.setdefault(user_id, {})
        if value is None:
            kept.pop(name, None)
        else:
            kept[name] = copied(value)

    async def put_feedback(self, row: FeedbackRow) -> FeedbackRow:
        """See Documents."""
        self._tables.refuse(row.thread_key)
        key = (row.run_id, row.user_id)
        found = self._tables.feedback.get(key, row)
        stored = replace(found, rating=row.rating, data=copied(row.data))
        self._tables.feedback[key] = stored
        return stored

    async def feedback(self, thread_key: str, *, run_id: str | None = None) -> list[FeedbackRow]:
        """See Documents."""
        found = [
            row
            for row in self._tables.feedback.values()
            if row.thread_key == thread_key and run_id in (None, row.run_id)
        ]
        return sorted(found, key=lambda row: (row.created_at, row.feedback_id))

    async def remove_feedback(
        self, thread_key: str, run_id: str, user_id: str, feedback_id: str | None = None
    ) -> bool:
        """See Documents."""
        found = self._tables.feedback.get((run_id, user_id))
        if found is None or found.thread_key != thread_key:
            return False
        if feedback_id not in (None, found.feedback_id):
            return False
        del self._tables.feedback[(run_id, user_id)]
        return True

    async def put_assistant(self, row: AssistantRow) -> None:
        """See Documents."""
        versions = self._assistants.setdefault((row.user_id, row.assistant_id), [])
        if any(known.version == row.version for known in versions):
            raise ConflictError(f"The assistant has a version {row.version} already.")
        versions.append(replace(row, data=copied(row.data)))
        versions.sort(key=lambda known: known.version, reverse=True)

    async def assistants(self, user_id: str) -> list[AssistantRow]:
        """See Documents."""
        found = [
            (versions[-1].created_at, versions[0])
            for (whose, _), versions in self._assistants.items()
            if whose == user_id
        ]
        return [row for _, row in sorted(found, key=lambda pair: (pair[0], pair[1].assistant_id))]

    async def assistant_versions(self, user_id: str, assistant_id: str) -> list[AssistantRow]:
        """See Documents."""
        return list(self._assistants.get((user_id, assistant_id), []))

    async def remove_assistant(self, user_id: str, assistant_id: str) -> bool:
        """See Documents."""
        return self._assistants.pop((user_id, assistant_id), None) is not None
