"""Tells the checkpoints that only open a run: nothing in them is lost that the run's row lacks."""

from __future__ import annotations

from langgraph.checkpoint.base import CheckpointMetadata

from deerflow.storage.checkpoints.address import Address


class Openings:
    """The last input of each thread, until the step that follows it."""

    def __init__(self) -> None:
        self._steps: dict[tuple[str, str], int] = {}

    def holds(self, at: Address, metadata: CheckpointMetadata) -> bool:
        """Whether this is a run's input, or the step that hands it to the first node."""
        key = (at.thread_key, at.ns)
        step, source = metadata.get("step", 0), metadata.get("source")
        if source == "input":
            self._steps[key] = step
            return True
        return source == "loop" and self._steps.pop(key, None) == step - 1
