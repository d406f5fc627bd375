"""A catalogue of scripted models: the first falls over to the others in order."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models import BaseChatModel

from deerflow.errors import NotFoundError
from deerflow.models.protocol import ModelSpec
from deerflow.models.scripted import ScriptedChatModel


class ScriptedCatalog:
    """`ScriptedCatalog(main=[turns], spare=[turns])`; the models stand in `models`."""

    def __init__(self, **scripts: list[Any]) -> None:
        self.models = {
            name: ScriptedChatModel(script=turns, model=name) for name, turns in scripts.items()
        }

    @property
    def default(self) -> str:
        return self.names()[0]

    def names(self) -> list[str]:
        return list(self.models)

    def spec(self, name: str) -> ModelSpec:
        self.get(name)
        return ModelSpec(name=name, provider="scripted", model=name)

    def get(self, name: str, *, thinking: bool | None = None) -> BaseChatModel:
        if name not in self.models:
            raise NotFoundError(f"No model {name!r}.")
        return self.models[name]

    def spec_of(self, model: BaseChatModel) -> ModelSpec:
        for name, known in self.models.items():
            if known is model:
                return self.spec(name)
        raise NotFoundError("Not out of this catalogue.")

    def fallbacks(self, name: str) -> list[str]:
        return [other for other in self.models if other != name]
