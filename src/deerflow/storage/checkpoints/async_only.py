"""The sync doors of a LangGraph saver, closed: each names the way in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, DeltaChannelHistory


class AsyncOnlySaver(BaseCheckpointSaver[int]):
    """A saver for `ainvoke` and `astream`; `invoke` and `stream` raise NotImplementedError."""

    def get_tuple(self, config: RunnableConfig) -> NoReturn:
        """Not offered."""
        _async_only("aget_tuple")

    def list(self, config: RunnableConfig | None, **kwargs: Any) -> Iterator[CheckpointTuple]:
        """Not offered."""
        _async_only("alist")

    def put(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not offered."""
        _async_only("aput")

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> NoReturn:
        """Not offered."""
        _async_only("aput_writes")

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Not offered."""
        _async_only("aget_delta_channel_history")


def _async_only(name: str) -> NoReturn:
    raise NotImplementedError(f"This saver is async only: call the graph with ainvoke, or {name}.")
