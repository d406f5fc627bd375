"""A whole harness in memory with a scripted model: no process, no disk but a temporary home."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from langchain_core.tools import BaseTool

from deerflow.config.load import LoadedConfig
from deerflow.config.schema import AppConfig
from deerflow.models.scripted import ScriptedChatModel
from deerflow.wiring.harness import Harness, open_harness
from fakes.documented import check_payload

SCRIPTED = "deerflow.models.scripted:ScriptedChatModel"


def scripted_config(script: Any, **sections: Any) -> AppConfig:
    """A configuration with one scripted model, in-memory database and in-memory sandbox."""
    raw: dict[str, Any] = {
        "models": [{"name": "scripted", "use": SCRIPTED, "script": script}],
        "database": {"backend": "memory"},
        "sandbox": {"use": "memory"},
        **sections,
    }
    return AppConfig.model_validate(raw)


def loaded(config: AppConfig, home: Path) -> LoadedConfig:
    """As `load_config` would give it."""
    return LoadedConfig(
        config=config, path=None, warnings=(), source_sha256="", home=home, cwd=home
    )


@asynccontextmanager
async def scripted_harness(
    script: Any, home: Path, *, tools: Sequence[BaseTool] = (), **sections: Any
) -> AsyncGenerator[Harness]:
    """An open harness that plays the script."""
    config = scripted_config(script, **sections)
    async with open_harness(loaded(config, home), {}, tools=tools) as harness:
        yield harness
        check_events(harness)


def check_events(harness: Harness) -> None:
    """Every event that was written has the fields that events.py names."""
    tables: Any = getattr(harness.storage.events, "_tables", None)
    for events in tables.events.values() if tables is not None else ():
        for event in events:
            check_payload(event.type, event.payload)


def scripted_of(harness: Harness, name: str = "scripted") -> ScriptedChatModel:
    """The scripted model of a harness, with the requests that it was sent."""
    model: Any = harness.catalog.get(name)
    return model.inner
