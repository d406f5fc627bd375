"""Finds the class of a configured model and builds it with the configured keys."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, cast
from urllib.parse import urlsplit

from langchain_core.language_models import BaseChatModel
from pydantic import ValidationError

from deerflow.config.aliases import MODELS, resolve
from deerflow.config.schema import ModelConfig
from deerflow.errors import ConfigError, DeerFlowError
from deerflow.models.failures import safe
from deerflow.models.openai import OpenAIChatModel
from deerflow.models.pool import SessionPool
from deerflow.models.providers import (
    PROVIDERS,
    Provider,
    address_problem,
    package_for,
    provider_of_url,
    proxy_for,
)

LEAN = "deerflow.models.openai:OpenAIChatModel"
_SPECIAL = {
    "local": "deerflow.models.local:LocalChatModel",
    "scripted": "deerflow.models.scripted:ScriptedChatModel",
}
LOCAL_WINDOW = 4096
"""Window of the embedded model in tokens unless configured; it loads fast and takes 94 MB."""
_OWN_KEYS = frozenset({"thinking", "when_thinking_enabled", "when_thinking_disabled"})
_URL_KEYS = ("base_url", "api_base", "openai_api_base")


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a configured model is built.

    Attributes:
        use: class as module:Class, or "" for LangChain's class of `provider`.
        provider: identity for private fields, and whose key variable is read.
        model: the provider's model name.
        keys: keyword arguments of the constructor.
    """

    use: str
    provider: str
    model: str
    keys: dict[str, Any] = field(default_factory=dict[str, Any])


def recipe(config: ModelConfig) -> Recipe:
    """Read an entry. Raises ConfigError when its class path or shorthand means nothing."""
    keys = {key: value for key, value in config.extra.items() if key not in _OWN_KEYS}
    for key in ("base_url", "api_key", "max_tokens"):
        value = getattr(config, key)
        if value is not None:
            keys[key] = value
    url = next((str(keys[key]) for key in _URL_KEYS if keys.get(key)), "")
    lean = not config.use or _is_lean(resolve(config.use, MODELS).use or "")
    problem = address_problem(url, web=lean) if url else ""
    if problem:
        raise ConfigError([f"models.{config.name}.base_url: {problem}"])
    if "local" in (config.use, (config.model or "").partition(":")[0]):
        keys.setdefault("n_ctx", config.context_window or LOCAL_WINDOW)
    if config.use in _SPECIAL:
        return Recipe(_SPECIAL[config.use], config.provider or config.use, config.model or "", keys)
    if config.use:
        return _by_class(config, keys, url)
    return _by_shorthand(config, keys, url)


def _by_class(config: ModelConfig, keys: dict[str, Any], url: str) -> Recipe:
    alias = resolve(config.use or "", MODELS)
    if alias.use is None:
        raise ConfigError([f"models.{config.name}.use: {alias.cure}"])
    keys = {**{k: v for k, v in alias.defaults.items() if k != "provider"}, **keys}
    use, hinted = alias.use, alias.defaults.get("provider", "")
    for name, path in _SPECIAL.items():
        if use == path:
            return Recipe(use, config.provider or name, config.model or name, keys)
    provider = config.provider or (provider_of_url(url) if url else "") or hinted
    if _is_lean(use):
        provider = provider or "openai"
        known = PROVIDERS.get(provider)
        if not url and known is not None and known.base_url:
            keys["base_url"] = known.base_url
    return Recipe(use, provider or _provider_of_class(use), config.model or "", keys)


def _by_shorthand(config: ModelConfig, keys: dict[str, Any], url: str) -> Recipe:
    name = config.model or ""
    prefix, _, rest = name.partition(":")
    if rest and prefix in _SPECIAL:
        return Recipe(_SPECIAL[prefix], config.provider or prefix, rest, keys)
    if url:  # "qwen3:8b" behind an address is a model name, "openai:gpt-5" a shorthand
        model = rest if rest and prefix in PROVIDERS else name
        return Recipe(LEAN, config.provider or provider_of_url(url), model, keys)
    known = PROVIDERS.get(prefix)
    if known is not None and known.base_url:
        keys = {**keys, "base_url": known.base_url}
        return Recipe(LEAN, config.provider or prefix, rest, keys)
    return Recipe("", config.provider or prefix, rest, keys)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What models take from the process.

    Attributes:
        environ: variables for keys and proxies.
        pool: HTTP sessions of our own models.
        home: DEER_FLOW_HOME, where the embedded model's file lies, or None.
    """

    environ: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    pool: SessionPool = field(default_factory=SessionPool)
    home: Path | None = None


def construct(
    how: Recipe, name: str, thinking: Mapping[str, Any], around: Surroundings
) -> BaseChatModel:
    """Build the chat model.

    Args:
        how: from `recipe`.
        name: configured name, for messages.
        thinking: further constructor keys, merged over the others.
        around: what it takes from the process.

    Raises:
        ConfigError: the package is missing, the class is none, a key is wrong or missing.
    """
    keys = merge(how.keys, thinking)
    known = PROVIDERS.get(how.provider, Provider())
    has_key = any(keys.get(key) for key in ("api_key", f"{how.provider}_api_key"))
    if not has_key and known.key and around.environ.get(known.key):
        keys["api_key"] = around.environ[known.key]
        has_key = True
    if not how.use:
        return _by_langchain(how, name, keys)
    found = _load(how.use, name)
    if issubclass(found, OpenAIChatModel):
        keys = _lean_keys(keys, around, name)
        if known.key and not has_key:
            raise ConfigError(
                [f"models.{name}: no key; set {known.key} or `api_key` of this model"]
            )
    elif found.__module__.startswith("langchain_openai"):
        keys.setdefault("stream_usage", True)  # off by default behind a base_url
    if how.model:
        keys["model"] = how.model
    if how.use == _SPECIAL["local"] and around.home is not None:
        keys.setdefault("home", around.home)
    with _Building(name):
        return found(**keys)


def _lean_keys(keys: dict[str, Any], around: Surroundings, name: str) -> dict[str, Any]:
    url = next((keys.pop(key) for key in _URL_KEYS if keys.get(key)), None)
    proxy = proxy_for(url, around.environ) if url else None
    if url and "@" in urlsplit(str(url)).netloc and keys.get("api_key"):
        raise ConfigError(
            [f"models.{name}.base_url: holds a user name beside `api_key`; leave one of them away"]
        )
    filled = {**keys, "label": name, "pool": around.pool}
    if url:
        filled["base_url"] = url
    if proxy:
        filled.setdefault("proxy", proxy)
    return filled


def _load(use: str, name: str) -> type[BaseChatModel]:
    module, _, attribute = use.partition(":")
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or module
        cure = _installing(package_for(missing))
        raise ConfigError([f"models.{name}.use: {missing} is not installed; {cure}"]) from error
    found: Any = getattr(loaded, attribute, None)
    if not isinstance(found, type) or not issubclass(found, BaseChatModel):
        near = difflib.get_close_matches(attribute, dir(loaded), n=1)
        hint = f"; did you mean {near[0]}?" if near and found is None else ""
        raise ConfigError([f"models.{name}.use: {use} is not a LangChain chat class{hint}"])
    return found


def _by_langchain(how: Recipe, name: str, keys: dict[str, Any]) -> BaseChatModel:
    # Loads all of langchain's chat package; only models without own class path need it.
    from langchain.chat_models import init_chat_model  # noqa: PLC0415

    known = PROVIDERS.get(how.provider)
    try:
        with _Building(name):
            return cast(
                "BaseChatModel",
                init_chat_model(how.model, model_provider=how.provider, **keys),
            )
    except ImportError as error:
        package = known.package if known else ""
        missing = f"its package is not installed; {_installing(package)}"
        why = missing if package else safe(str(error))
        raise ConfigError([f"models.{name}.model: {why}"]) from error


def _installing(package: str) -> str:
    return f"install {package} beside deerflow: uv pip install {package}"


class _Building:
    """Turns whatever a constructor raises into a ConfigError that shows no value."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, ValidationError):
            found = error.errors(include_url=False, include_input=False)
            where = [".".join(map(str, item["loc"])) or "keys" for item in found]
            raise ConfigError(
                [
                    f"models.{self._name}.{key}: {item['msg']}"
                    for key, item in zip(where, found, strict=True)
                ]
            ) from None
        if isinstance(error, Exception) and not isinstance(error, (DeerFlowError, ImportError)):
            raise ConfigError([f"models.{self._name}: {safe(str(error))}"]) from error


def _is_lean(use: str) -> bool:
    return use in (LEAN, "deerflow.models.vllm_provider:VllmChatModel")


def _provider_of_class(use: str) -> str:
    top = use.partition(":")[0].partition(".")[0]
    return top.removeprefix("langchain_")


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Two mappings, the second one winning, mappings inside them merged likewise."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            inner = cast("tuple[Mapping[str, Any], Mapping[str, Any]]", (old, value))
            merged[key] = merge(*inner)
        else:
            merged[key] = value
    return merged
