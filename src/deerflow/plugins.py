"""Third-party parts named as module:Class: middlewares, detectors, sandboxes, policies."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from langchain.agents.middleware.types import AgentMiddleware

from deerflow.config.schema import MemoryBackendConfig, MemoryConfig, SafetyDetectorConfig
from deerflow.errors import ConfigError
from deerflow.guardrails.protocol import GuardrailProvider
from deerflow.memory.protocol import MemoryManager, MemoryStorage
from deerflow.middlewares.safety_finish_reason import Detector
from deerflow.sandbox.protocol import SandboxProvider
from deerflow.skills.protocol import SkillStore

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


def load_detectors(entries: Sequence[SafetyDetectorConfig] | None) -> list[Detector] | None:
    """Own detectors of row 16, None for the built-in ones.

    Args:
        entries: section `safety_finish_reason.detectors`; further keys go to the class.

    Raises:
        ConfigError: a class that cannot be loaded.
    """
    if entries is None:
        return None
    detectors: list[Detector] = []
    for entry in entries:
        key, cure = "safety_finish_reason.detectors", "Name a class as module:Class."
        detectors.append(_made(key, entry.use, cure, **entry.extra))
    return detectors


def load_provider(path: str) -> SandboxProvider:
    """The sandbox provider that `sandbox.use` names as module:Class; it takes no argument.

    Raises:
        ConfigError: it cannot be loaded.
    """
    return _made("sandbox.use", path, "Use local, host, memory or module:Class.")


def load_guardrails(path: str, settings: Mapping[str, Any]) -> GuardrailProvider:
    """The provider of policy that `guardrails.provider.use` names as module:Class.

    Args:
        path: where it is.
        settings: `guardrails.provider.config`, the keyword arguments of the class.

    Raises:
        ConfigError: it cannot be loaded, or does not take the settings.
    """
    cure = "Use allowlist, oap or module:Class, with the keys that it takes as config."
    made = _made("guardrails.provider", path, cure, **settings)
    if not isinstance(made, GuardrailProvider):
        raise ConfigError(
            [f"guardrails.provider.use: {path}: no provider of policy"],
            cure="It needs a name and an async method evaluate(action).",
        )
    return made


def load_skill_store(path: str) -> SkillStore:
    """The store of skills that `skills.use` names as module:Class; it takes no argument.

    Raises:
        ConfigError: it cannot be loaded.
    """
    return _made("skills.use", path, "Use local or module:Class.")


def load_memory_storage(path: str, backend: MemoryBackendConfig) -> MemoryStorage:
    """The store that `memory.backend_config.storage` names as module:Class.

    Args:
        path: where it is; the class takes the section.
        backend: section `memory.backend_config`.

    Raises:
        ConfigError: it cannot be loaded, or is no store of memories.
    """
    cure = "Use file, sql or module:Class; the class takes the section backend_config."
    made = _made("memory.backend_config.storage", path, cure, backend)
    if not isinstance(made, MemoryStorage):
        raise ConfigError(
            [f"memory.backend_config.storage: {path}: no store of memories"],
            cure="It needs the methods of deerflow.memory.protocol.MemoryStorage.",
        )
    return made


def load_memory_manager(path: str, config: MemoryConfig) -> MemoryManager:
    """The memory that `memory.manager_class` names as module:Class.

    Args:
        path: where it is; the class takes the section.
        config: section `memory`.

    Raises:
        ConfigError: it cannot be loaded, or is no memory.
    """
    cure = "Use deermem, noop or module:Class; the class takes the section memory."
    made = _made("memory.manager_class", path, cure, config)
    if not isinstance(made, MemoryManager):
        raise ConfigError(
            [f"memory.manager_class: {path}: no memory"],
            cure="Derive it from deerflow.memory.protocol.MemoryManager.",
        )
    return made


def _made(key: str, path: str, cure: str, *args: Any, **kwargs: Any) -> Any:
    """An object of the class that a key names. Raises ConfigError."""
    try:
        return _named(path)(*args, **kwargs)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ConfigError([f"{key}: {path}: {error}"], cure=cure) from error


def _load(path: str) -> Foreign:
    made: Any = _named(path)()
    if not isinstance(made, AgentMiddleware):
        raise TypeError("no langchain AgentMiddleware")
    return made  # pyright: ignore[reportUnknownVariableType]


def _named(path: str) -> Any:
    module, colon, name = path.partition(":")
    if not colon:
        raise ValueError("expected module:Class")
    return getattr(importlib.import_module(module), name)
