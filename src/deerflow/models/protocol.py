"""What the models package promises to the kernel: specs, the delta sink and the catalogue.

`Catalog.get` returns a LangChain chat model whose `bind_tools(...).ainvoke(messages)` makes the
request legal for its provider (`quirks.legalise`), streams, reports deltas to the sink of the
context, and returns one AIMessage.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from langchain_core.language_models import BaseChatModel


@dataclass(frozen=True, slots=True)
class Pricing:
    """Price per million tokens in `currency`."""

    currency: str
    input: float
    output: float
    cached_input: float | None = None


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """What is known of a configured model.

    Attributes:
        name: as in the configuration.
        provider: identity that decides which private fields may be sent back ("openai",
            "deepseek", "local" …); with `model`, a change of it drops them.
        model: the provider's model name.
        context_window: tokens, None when unknown.
        max_output: tokens, None when unknown.
        vision: takes images.
        thinking: can think.
        efforts: takes a reasoning effort.
        tools: can call tools.
        compact: wants the compact prompt profile and few tools.
        pricing: or None.
        settings: extra constructor keywords, for the signature.
    """

    name: str
    provider: str
    model: str
    context_window: int | None = None
    max_output: int | None = None
    vision: bool = False
    thinking: bool = False
    tools: bool = True
    compact: bool = False
    pricing: Pricing | None = None
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    efforts: bool = False


DeltaSink = Callable[[str, str], None]
"""Called as sink(kind, text), in order, never blocking, with kind "text", "reasoning" or "call".

"call" carries a piece of a tool call's arguments: a sign of life for the idle limit, not to be
shown.
"""

delta_sink: ContextVar[DeltaSink | None] = ContextVar("deerflow_delta_sink", default=None)


class Catalog(Protocol):
    """The configured models."""

    @property
    def default(self) -> str:
        """Name of the model that a run takes when none is named."""
        ...

    def names(self) -> list[str]:
        """Configured names in order."""
        ...

    def spec(self, name: str) -> ModelSpec:
        """Facts of a model. Raises NotFoundError with the nearest name."""
        ...

    def get(self, name: str, *, thinking: bool | None = None) -> BaseChatModel:
        """The chat model, built once per (name, thinking). Raises NotFoundError, ConfigError."""
        ...

    def spec_of(self, model: BaseChatModel) -> ModelSpec:
        """The spec that a model from `get` was built from."""
        ...

    def fallbacks(self, name: str) -> list[str]:
        """Models to fall over to, in order."""
        ...

    async def aclose(self) -> None:
        """Close what the models of this process share on the running loop."""
        ...
