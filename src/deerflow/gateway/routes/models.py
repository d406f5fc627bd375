"""The models that runs can choose."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel

from deerflow.errors import ConfigError
from deerflow.gateway.deps import Caller, Open, needs
from deerflow.gateway.routes.bodies import Ident
from deerflow.wiring.harness import Harness

router = APIRouter(tags=["models"])

Reader = Annotated[Caller, needs("account:read")]


class Model(BaseModel):
    """A model as people choose it; nothing of its key or address."""

    name: str
    model: str
    display_name: str
    description: str | None = None
    supports_thinking: bool = False
    supports_reasoning_effort: bool = False
    supports_vision: bool = False
    context_window: int | None = None


class Switch(BaseModel):
    """Whether something is on."""

    enabled: bool


class ModelList(BaseModel):
    """All models, the default first."""

    models: list[Model]
    token_usage: Switch


@router.get("/models", summary="List the models")
async def listing(gate: Open, who: Reader) -> ModelList:
    """In the order of the configuration; the first is the default."""
    harness = gate.runtime.harness
    return ModelList(
        models=[_model(harness, name) for name in harness.catalog.names()],
        token_usage=Switch(enabled=harness.loaded.config.token_usage.enabled),
    )


@router.get("/models/{model_name:path}", summary="A model")
async def get(model_name: Ident, gate: Open, who: Reader) -> Model:
    """404 with the nearest name when there is none."""
    harness = gate.runtime.harness
    if model_name not in harness.catalog.names():
        harness.catalog.spec(model_name)
    return _model(harness, model_name)


def _model(harness: Harness, name: str) -> Model:
    entry = harness.loaded.config.model(name)
    shown = (entry.display_name if entry else None) or name
    about = entry.description if entry else None
    try:
        spec = harness.catalog.spec(name)
    except ConfigError:  # a run says what is wrong with it
        return Model(name=name, model=name, display_name=shown, description=about)
    return Model(
        name=name,
        model=spec.model,
        display_name=shown,
        description=about,
        supports_thinking=spec.thinking,
        supports_reasoning_effort=spec.efforts,
        supports_vision=spec.vision,
        context_window=spec.context_window,
    )
