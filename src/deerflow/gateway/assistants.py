"""Assistants of the LangGraph protocol: the built-in agent, custom agents, and stored settings."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

from deerflow.errors import ConflictError, NotFoundError
from deerflow.gateway.deps import Caller, Gateway
from deerflow.gateway.wire import LEAD, iso
from deerflow.storage.protocol import AssistantRow

STARTED = time.time()
"""Creation time of what is built in."""


@dataclass(frozen=True, slots=True)
class Assistant:
    """One assistant.

    Attributes:
        assistant_id: built in: `lead_agent`; of a custom agent its name; else as it was stored.
        graph_id: `lead_agent`, or the custom agent that it stands on.
        name, description: for people.
        config, context, metadata: JSON objects; context holds defaults of its runs.
        version: from 1.
        created_at, updated_at: UTC seconds.
        stored: whether it can be changed.
    """

    assistant_id: str
    graph_id: str = LEAD
    name: str = ""
    description: str | None = None
    config: dict[str, Any] = field(default_factory=dict[str, Any])
    context: dict[str, Any] = field(default_factory=dict[str, Any])
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    version: int = 1
    created_at: float = STARTED
    updated_at: float = STARTED
    stored: bool = False

    def as_dict(self) -> dict[str, Any]:
        """On the wire."""
        return {
            "assistant_id": self.assistant_id,
            "graph_id": self.graph_id,
            "name": self.name,
            "description": self.description,
            "config": self.config,
            "context": self.context,
            "metadata": self.metadata,
            "version": self.version,
            "created_at": iso(self.created_at),
            "updated_at": iso(self.updated_at),
        }


FIELDS = ("graph_id", "name", "description", "config", "context", "metadata")
"""What a version of a stored assistant keeps."""


class Assistants:
    """Assistants of one user.

    Args:
        gate: the gateway.
        who: the user.
    """

    def __init__(self, gate: Gateway, who: Caller) -> None:
        self._harness = gate.runtime.harness
        self._documents = gate.runtime.harness.storage.documents
        self._user = who.user_id

    async def all(self) -> list[Assistant]:
        """The built-in one, custom agents by name, stored ones oldest first."""
        names = await self._harness.profiles.list(self._user)
        custom = [await self._custom(name) for name in names]
        stored = await self._documents.assistants(self._user)
        return [_LEAD, *custom, *(_of_row(row) for row in stored)]

    async def get(self, assistant_id: str) -> Assistant:
        """One of them.

        Raises:
            NotFoundError: unknown or someone else's, alike.
        """
        if assistant_id == LEAD:
            return _LEAD
        versions = await self._documents.assistant_versions(self._user, assistant_id)
        if versions:
            return _of_row(versions[0])
        if assistant_id in await self._harness.profiles.list(self._user):
            return await self._custom(assistant_id)
        raise NotFoundError(f"There is no assistant {assistant_id[:80]!r} here.")

    async def create(self, given: Assistant, *, keep: bool) -> Assistant:
        """Store one; with `keep` the one that is there counts.

        Raises:
            NotFoundError: its graph is neither the built-in agent nor a custom one.
            ConflictError: there is one of this id.
        """
        try:
            found = await self.get(given.assistant_id)
        except NotFoundError:
            await self._check(given.graph_id)
            now = time.time()
            row = self._row(replace(given, version=1), now)
            await self._documents.put_assistant(row)
            return _of_row(row)
        if not keep:
            raise ConflictError(f"There is an assistant {given.assistant_id[:80]!r} already.")
        return found

    async def change(self, assistant_id: str, changes: dict[str, Any]) -> Assistant:
        """A new version with other fields; metadata are merged.

        Raises:
            NotFoundError: none of this id is stored.
        """
        versions = await self._versions(assistant_id)
        before = _of_row(versions[0])
        if "metadata" in changes:
            changes = {**changes, "metadata": {**before.metadata, **changes["metadata"]}}
        await self._check(changes.get("graph_id", before.graph_id))
        after = replace(before, **changes, version=versions[0].version + 1)
        row = self._row(after, before.created_at)
        await self._documents.put_assistant(row)
        return _of_row(row)

    async def versions(self, assistant_id: str) -> list[Assistant]:
        """All versions, newest first. Raises NotFoundError."""
        if assistant_id == LEAD:
            return [_LEAD]
        rows = await self._documents.assistant_versions(self._user, assistant_id)
        if not rows:
            return [await self.get(assistant_id)]
        return [_of_row(row) for row in rows if AGAIN not in row.data]

    async def set_latest(self, assistant_id: str, version: int) -> Assistant:
        """Make an earlier version count again. Raises NotFoundError."""
        rows = await self._versions(assistant_id)
        for row in rows:
            if row.version == version and AGAIN not in row.data:
                again = replace(
                    row,
                    version=rows[0].version + 1,
                    created_at=time.time(),
                    data={**row.data, AGAIN: version},
                )
                await self._documents.put_assistant(again)
                return _of_row(again)
        raise NotFoundError(f"This assistant has no version {version}.")

    async def delete(self, assistant_id: str) -> None:
        """Remove a stored one with all its versions. Raises NotFoundError."""
        await self._versions(assistant_id)
        await self._documents.remove_assistant(self._user, assistant_id)

    async def _versions(self, assistant_id: str) -> list[AssistantRow]:
        rows = await self._documents.assistant_versions(self._user, assistant_id)
        if not rows:
            raise NotFoundError(f"There is no stored assistant {assistant_id[:80]!r} here.")
        return rows

    async def _custom(self, name: str) -> Assistant:
        profile = await self._harness.profiles.get(self._user, name)
        metadata = {"created_by": "user", "agent_name": name}
        return Assistant(name, name=name, description=profile.description, metadata=metadata)

    async def _check(self, graph_id: str) -> None:
        if graph_id != LEAD and graph_id not in await self._harness.profiles.list(self._user):
            raise NotFoundError(f"There is no graph {graph_id[:80]!r} here.", cure=f"Use {LEAD!r}.")

    def _row(self, given: Assistant, created_at: float) -> AssistantRow:
        now = time.time()
        data = {name: getattr(given, name) for name in FIELDS} | {"first_at": created_at}
        return AssistantRow(self._user, given.assistant_id, given.version, now, data)


AGAIN = "again"
"""In the data of a version: the number of the earlier version that it repeats."""

_LEAD = Assistant(
    LEAD,
    name=LEAD,
    description="The built-in agent.",
    metadata={"created_by": "system"},
)


def _of_row(row: AssistantRow) -> Assistant:
    data = row.data
    return Assistant(
        row.assistant_id,
        **{name: data[name] for name in FIELDS if name in data},
        version=int(data.get(AGAIN, row.version)),
        created_at=float(data.get("first_at", row.created_at)),
        updated_at=row.created_at,
        stored=True,
    )
