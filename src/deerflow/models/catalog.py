"""The configured models: facts by name, chat models built once, and the fall-over order."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel

from deerflow.config.schema import AppConfig, ModelConfig
from deerflow.config.section import is_secret
from deerflow.errors import ConfigError, NotFoundError
from deerflow.models.construct import Recipe, Surroundings, construct, merge, recipe
from deerflow.models.pool import SessionPool
from deerflow.models.protocol import ModelSpec, Pricing
from deerflow.models.wire import Exchange, WireModel


class ModelCatalog:
    """Implements `models.protocol.Catalog` over the `models` section.

    Args:
        models: the section, in order; the first is the default.
        environ: variables, for keys and proxies that the section does not give.
        home: DEER_FLOW_HOME, for the embedded model's file.
        given: chat models that the caller made, by name; they come first.
    """

    def __init__(
        self,
        models: Sequence[ModelConfig],
        *,
        environ: Mapping[str, str] | None = None,
        home: Path | None = None,
        given: Mapping[str, BaseChatModel] | None = None,
    ) -> None:
        self._configs = {config.name: config for config in models}
        self._around = Surroundings(dict(environ or {}), SessionPool(), home)
        self._recipes: dict[str, Recipe] = {}
        self._specs: dict[str, ModelSpec] = {}
        self._built: dict[tuple[str, bool | None], WireModel] = {}
        self._given = {name: _wired(name, model) for name, model in (given or {}).items()}

    @property
    def default(self) -> str:
        """Name of the first model. Raises NotFoundError when none is configured."""
        if self._given:
            return next(iter(self._given))
        if not self._configs:
            raise NotFoundError(
                "No model is configured.", cure="Add one under `models` in config.yaml."
            )
        return next(iter(self._configs))

    def names(self) -> list[str]:
        """Configured names in order."""
        return [*self._given, *self._configs]

    def config(self, name: str) -> ModelConfig:
        """The section's entry. Raises NotFoundError with the nearest name."""
        found = self._configs.get(name)
        if found is None:
            near = difflib.get_close_matches(name, self._configs, n=1, cutoff=0.4)
            known = ", ".join(self._configs) or "none"
            cure = f"Did you mean {near[0]!r}?" if near else f"Configured: {known}."
            raise NotFoundError(f"There is no model {name!r}.", cure=cure)
        return found

    def spec(self, name: str) -> ModelSpec:
        """Facts of a model. Raises NotFoundError, ConfigError (its class path has no meaning)."""
        if name in self._given:
            return self._given[name].spec
        found = self._specs.get(name)
        if found is None:
            found = self._specs[name] = _spec(self.config(name), self._recipe(name))
        return found

    def get(self, name: str, *, thinking: bool | None = None) -> BaseChatModel:
        """The chat model, a `WireModel`, built once per (name, thinking).

        Args:
            name: as configured.
            thinking: True and False merge `when_thinking_enabled` and `when_thinking_disabled` into
                the constructor's keys; None merges neither.

        Raises:
            NotFoundError: no such name.
            ConfigError: its package is missing, its class or a key is wrong.
        """
        found = self._given.get(name) or self._built.get((name, thinking))
        if found is None:
            config, how = self.config(name), self._recipe(name)
            keys = thinking_keys(config, thinking)
            inner = construct(how, config.name, keys, self._around)
            found = WireModel(inner=inner, spec=self.spec(name))
            self._built[(name, thinking)] = found
        return found

    def spec_of(self, model: Any) -> ModelSpec:
        """The spec that a model of `get`, with or without tools bound, was built from."""
        if isinstance(model, (WireModel, Exchange)):
            return model.spec
        raise NotFoundError("The model is not one of the catalogue's.")

    def fallbacks(self, name: str) -> list[str]:
        """Models to fall over to, in order. Raises NotFoundError when one of them is unknown."""
        if name in self._given:
            return []
        names = dict.fromkeys(self.config(name).fallbacks)
        return [self.config(other).name for other in names if other != name]

    async def aclose(self) -> None:
        """Close the running loop's HTTP session."""
        await self._around.pool.aclose()

    def _recipe(self, name: str) -> Recipe:
        found = self._recipes.get(name)
        if found is None:
            found = self._recipes[name] = recipe(self.config(name))
        return found


def create_chat_model(
    name: str | None = None,
    *,
    config: AppConfig,
    environ: Mapping[str, str] | None = None,
    thinking: bool | None = None,
) -> BaseChatModel:
    """One chat model of a configuration, without keeping a catalogue.

    Args:
        name: as configured; None takes the first.
        config: the whole configuration.
        environ: variables for keys and proxies.
        thinking: see `ModelCatalog.get`.

    Raises:
        NotFoundError: no such model, or none at all.
        ConfigError: it cannot be built as configured.
    """
    catalog = ModelCatalog(config.models, environ=environ)
    return catalog.get(name or catalog.default, thinking=thinking)


def _wired(name: str, model: BaseChatModel) -> WireModel:
    """A model that was made outside, with what it tells of itself."""
    profile: Mapping[str, Any] = getattr(model, "profile", None) or {}
    spec = ModelSpec(
        name=name,
        provider=model._llm_type,  # pyright: ignore[reportPrivateUsage]
        model=str(getattr(model, "model_name", None) or getattr(model, "model", None) or name),
        context_window=profile.get("max_input_tokens"),
        max_output=profile.get("max_output_tokens"),
        vision=bool(profile.get("image_inputs")),
        tools=bool(profile.get("tool_calling", True)),
    )
    return WireModel(inner=model, spec=spec)


def thinking_keys(config: ModelConfig, thinking: bool | None) -> dict[str, Any]:
    """Constructor keys for thinking on, off, or as the endpoint does by itself (None).

    Turned off without `when_thinking_disabled`, the short form `thinking: {type: …}` becomes
    `{type: disabled}`.
    """
    if thinking is None:
        return {}
    short = {"thinking": config.thinking} if config.thinking else {}
    if thinking:
        return merge(config.when_thinking_enabled or {}, short) if config.supports_thinking else {}
    if config.when_thinking_disabled is not None:
        return dict(config.when_thinking_disabled)
    return {"thinking": {"type": "disabled"}} if "type" in (config.thinking or {}) else {}


def _spec(config: ModelConfig, how: Recipe) -> ModelSpec:
    pricing = config.pricing
    return ModelSpec(
        name=config.name,
        provider=how.provider,
        model=how.model,
        context_window=config.context_window or how.keys.get("n_ctx"),
        max_output=config.max_tokens,
        vision=config.supports_vision,
        thinking=config.supports_thinking,
        efforts=config.supports_reasoning_effort,
        tools=config.supports_tools,
        compact=how.provider == "local" if config.compact is None else config.compact,
        pricing=Pricing(pricing.currency, pricing.input, pricing.output, pricing.cached_input)
        if pricing
        else None,
        settings={key: value for key, value in how.keys.items() if not is_secret(key)},
    )


def check(catalog: ModelCatalog) -> None:
    """Build no model, but find what is wrong with the section.

    Raises:
        ConfigError: every entry whose class path or fall-over names mean nothing.
    """
    problems: list[str] = []
    for name in catalog.names():
        try:
            catalog.spec(name)
            catalog.fallbacks(name)
        except ConfigError as error:
            problems += error.problems
        except NotFoundError as error:
            problems.append(f"models.{name}.fallbacks: {error}")
    if problems:
        raise ConfigError(problems)
