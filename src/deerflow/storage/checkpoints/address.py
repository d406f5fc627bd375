"""Where a checkpoint is: thread key, namespace and id, in and out of a runnable config."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from langchain_core.runnables import RunnableConfig


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


def pack_id(text: str) -> bytes | str:
    """16 bytes for a canonical UUID (same order as its text), the text itself for any other id."""
    plain = text.replace("-", "")
    if (
        len(text) != 36
        or len(plain) != 32
        or not text[8] == text[13] == text[18] == text[23] == "-"
    ):
        return text
    try:
        found = bytes.fromhex(plain)
    except ValueError:
        return text
    return found if found.hex() == plain else text


def unpack_id(stored: bytes | str) -> str:
    """What `pack_id` was given."""
    return stored if isinstance(stored, str) else str(UUID(bytes=stored))
