"""Where a checkpoint is: thread key, namespace and id, in and out of a runnable config."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointMetadata


@dataclass(frozen=True, slots=True)
class Address:
    """A checkpoint's place. `checkpoint_id` is "" for the newest one."""

    thread_key: str
    ns: str = ""
    checkpoint_id: str = ""

    @classmethod
    def of(cls, config: RunnableConfig) -> Address:
        """The place that a config names."""
        found = config.get("configurable", {})
        return cls(
            str(found["thread_id"]),
            found.get("checkpoint_ns") or "",
            found.get("checkpoint_id") or "",
        )

    def config(self) -> RunnableConfig:
        """The config that names this place."""
        return {
            "configurable": {
                "thread_id": self.thread_key,
                "checkpoint_ns": self.ns,
                "checkpoint_id": self.checkpoint_id,
            }
        }


def pack_id(text: str) -> bytes:
    """16 bytes for a canonical UUID (same order as its text), a mark and the text for other ids."""
    plain = text.replace("-", "")
    if (
        len(text) != 36
        or len(plain) != 32
        or not text[8] == text[13] == text[18] == text[23] == "-"
    ):
        return _marked(text)
    try:
        found = bytes.fromhex(plain)
    except ValueError:
        return _marked(text)
    return found if found.hex() == plain else _marked(text)


def _marked(text: str) -> bytes:
    """Never 16 bytes, so that it is told from a UUID."""
    data = b"\x00" + text.encode("utf-8", "replace")
    return data + b"\x00" if len(data) == 16 else data


def unpack_id(stored: bytes | str) -> str:
    """What `pack_id` was given; text that stands in the database as such is an id as well."""
    if isinstance(stored, str):
        return stored
    if len(stored) == 16:
        return str(UUID(bytes=stored))
    return stored[1:].rstrip(b"\x00").decode()


def run_of(config: RunnableConfig, metadata: CheckpointMetadata) -> str | None:
    """The run's id, from where LangGraph or the runner has put it."""
    for place in (metadata, config.get("configurable"), config.get("metadata"), config):
        found: Any = place.get("run_id") if place else None
        if found:
            return str(found)
    return None
