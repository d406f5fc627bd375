"""How much a tool shows at once."""

from __future__ import annotations

from dataclasses import dataclass

from deerflow.config.schema import SandboxConfig


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """Characters that a result holds; the rest is said to exist and how to get it.

    Attributes:
        read_chars: of a file (`sandbox.read_file_output_max_chars`).
        list_chars: of a listing, glob or grep (`sandbox.ls_output_max_chars`).
    """

    read_chars: int = 50_000
    list_chars: int = 20_000

    @classmethod
    def of(cls, config: SandboxConfig) -> ToolLimits:
        """The limits of a configuration."""
        return cls(config.read_file_output_max_chars, config.ls_output_max_chars)
