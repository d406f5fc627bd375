"""Third-party middlewares: any LangChain `AgentMiddleware`, named in the configuration as module:Class."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from langchain.agents.middleware.types import AgentMiddleware

from deerflow.errors import ConfigError

Foreign = AgentMiddleware[Any, Any, Any]


def load_middlewares(paths: Sequence[str]) -> list[Foreign]:
    """One instance of each class, in order; they stand after the chain, nearer to model and tools.

    Args:
        paths: `module:Class`; the class takes no argument.

    Raises:
        ConfigError: all paths that cannot be loaded or are no middleware, one line each.
    """
    loaded: list[Foreign] = []
    problems: list[str] = []
    for path in dict.fromkeys(paths):
        try:
            loaded.append(_load(path))
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            problems.append(f"extensions.middlewares: {path}: {error}")
    if problems:
        raise ConfigError(problems, cure="Name importable classes as module:Class.")
    return loaded


def _load(path: str) -> Foreign:
    module, colon, name = path.partition(":")
    if not colon:
        raise ValueError("expected module:Class")
    made: Any = getattr(importlib.import_module(module), name)()
    if not isinstance(made, AgentMiddleware):
        raise TypeError(f"{name} is no langchain AgentMiddleware")
    return made  # pyright: ignore[reportUnknownVariableType]
