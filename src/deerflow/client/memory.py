"""`Memory`: what an agent remembers between runs, and a small store of values beside it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from deerflow.client.opening import located
from deerflow.config.schema import AppConfig
from deerflow.errors import UsageError
from deerflow.memory.protocol import MAX_FACT_CHARS, Fact, MemoryDocument, MemoryStorage, Source
from deerflow.wiring.memory import make_memory_storage

KEPT, NOTHING = "deermem", "noop"
_KEY = "key:"
"""Prefix of `source.message` of a fact that `store` wrote."""


@dataclass(slots=True)
class Memory:
    """Facts of a user, kept in files below the home, in a folder of the caller's, or not at all.

    Values are kept as facts, so that the agent sees them, people can read them, and a value that is
    replaced stays in the history.

    Attributes:
        storage: "deermem" (as configured), "noop" (forgets), or a folder.
        user_id: whose memory.
    """

    storage: str | Path = KEPT
    user_id: str = "local"

    async def store(self, key: str, value: Any) -> None:
        """Keep a JSON value under a key, in the place of a former one.

        Raises:
            UsageError: an empty key, a value that is no JSON or longer than a fact may be.
            StorageError: the memory is damaged or cannot be written.
        """
        content = f"{key}: {_text(key, value)}"
        if not key.strip() or len(content) > MAX_FACT_CHARS:
            raise UsageError(
                f"A key with its value has 1 to {MAX_FACT_CHARS} characters.",
                cure="Keep long texts in files.",
            )
        place = await self._place()
        if place is None:
            return
        try:
            await place.update(self.user_id, _Put(key, content))
        finally:
            await place.close()

    async def load(self, key: str, default: Any = None) -> Any:
        """The value of a key, or the default.

        Raises:
            StorageError: the memory is damaged.
        """
        return (await self.items()).get(key, default)

    async def items(self) -> dict[str, Any]:
        """All keys with their values, in order of storing.

        Raises:
            StorageError: the memory is damaged.
        """
        place = await self._place()
        if place is None:
            return {}
        try:
            document = await place.load(self.user_id)
        finally:
            await place.close()
        return {
            _key(fact): _value(fact.content.removeprefix(f"{_key(fact)}: "))
            for fact in document.current
            if fact.source.message.startswith(_KEY)
        }

    def applied(self, config: AppConfig) -> AppConfig:
        """The configuration with this memory in the place of its own."""
        if self.storage == KEPT:
            changes: dict[str, Any] = {"enabled": True}
        elif self.storage == NOTHING:
            changes = {"enabled": False}
        else:
            folder = str(Path(self.storage).absolute())
            backend = config.memory.backend_config.model_copy(
                update={"storage": "file", "storage_path": folder}
            )
            changes = {"enabled": True, "manager_class": KEPT, "backend_config": backend}
        return config.model_copy(update={"memory": config.memory.model_copy(update=changes)})

    async def _place(self) -> MemoryStorage | None:
        if self.storage == NOTHING:
            return None
        loaded, _ = await asyncio.to_thread(located, None, None)
        return make_memory_storage(self.applied(loaded.config), loaded.home)


@dataclass(frozen=True, slots=True)
class _Put:
    """The change that puts a value in the place of a former one."""

    key: str
    content: str

    def __call__(self, document: MemoryDocument) -> tuple[MemoryDocument, str] | None:
        source = Source(message=_KEY + self.key)
        former = next((fact for fact in document.current if fact.source == source), None)
        if former is not None and former.content == self.content:
            return None
        number = sum(1 for fact in document.facts if fact.source == source) + 1
        fact = Fact(
            id=f"{_KEY}{self.key}#{number}",
            content=self.content,
            source=source,
            supersedes=former.id if former else "",
        )
        facts = [
            each.with_(superseded_by=fact.id) if each is former else each for each in document.facts
        ]
        return document.with_(facts=(*facts, fact)), f"stored {self.key}"


def _text(key: str, value: Any) -> str:
    if isinstance(value, str):
        plain = value and value == value.strip() and not _is_json(value)
        return value if plain else orjson.dumps(value).decode()
    try:
        return orjson.dumps(value).decode()
    except TypeError as error:
        raise UsageError(
            f"The value of {key!r} is no JSON: {error}.", cure="Store text, numbers, lists."
        ) from error


def _is_json(text: str) -> bool:
    """Whether a text would read as another value: "7" and "null" are stored in quotes."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def _value(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _key(fact: Fact) -> str:
    return fact.source.message.removeprefix(_KEY)
