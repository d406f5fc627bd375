"""Finds a model when none is configured: by keys, on local servers, else the embedded one."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import aiohttp

from deerflow.config.schema import ModelConfig
from deerflow.models.gguf import CURE, SMOLLM2, bundled
from deerflow.models.providers import PROVIDERS

PROBE_SECONDS = 0.3
"""For all local servers together; one that is there answers within a few milliseconds."""
EMBEDDED = "embedded"
"""Name of the embedded model's entry."""
EMBEDDED_WINDOW = 4_096

Probe = Callable[[str, str], Awaitable[str | None]]
"""probe(base_url, api_key) → the id of a chat model that the endpoint offers, or None."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was found.

    Attributes:
        models: entries as in the configuration, the default first; never empty.
        line: what to tell the user, one line.
    """

    models: tuple[ModelConfig, ...]
    line: str


@dataclass(frozen=True, slots=True)
class _Key:
    """A key that people have in their environment.

    Attributes:
        variables: any of them holds the key.
        provider: as in `providers.PROVIDERS`.
        model: taken unless `model_variable` is set.
        model_variable, url_variable: environment variables, "" for none.
        base_url: of the OpenAI-compatible endpoint, where PROVIDERS has none.
        module: package that its class needs, "" for none.
        vision: the model takes images.
    """

    variables: tuple[str, ...]
    provider: str
    model: str
    model_variable: str
    url_variable: str = ""
    base_url: str = ""
    module: str = ""
    vision: bool = False


_KEYS = (
    _Key(
        ("OPENAI_API_KEY",),
        "openai",
        "gpt-5-mini",
        "OPENAI_MODEL",
        url_variable="OPENAI_BASE_URL",
        vision=True,
    ),
    _Key(
        ("ANTHROPIC_API_KEY",),
        "anthropic",
        "claude-sonnet-4-5",
        "ANTHROPIC_MODEL",
        module="langchain_anthropic",
        vision=True,
    ),
    _Key(("DEEPSEEK_API_KEY",), "deepseek", "deepseek-chat", "DEEPSEEK_MODEL"),
    _Key(
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        "gemini",
        "gemini-2.5-flash",
        "GEMINI_MODEL",
        vision=True,
    ),
    _Key(("OPENROUTER_API_KEY",), "openrouter", "openrouter/auto", "OPENROUTER_MODEL"),
    _Key(
        ("DASHSCOPE_API_KEY",),
        "dashscope",
        "qwen-plus",
        "DASHSCOPE_MODEL",
        base_url="https://dashscope.aliyuncs.com/compatible-mode/v1",
    ),
    _Key(("MOONSHOT_API_KEY",), "moonshot", "kimi-latest", "MOONSHOT_MODEL"),
    _Key(("MINIMAX_API_KEY",), "minimax", "MiniMax-M2", "MINIMAX_MODEL"),
)
"""In order of preference; addresses and names as the providers document them."""

SERVERS = (
    ("ollama", "Ollama", "http://127.0.0.1:11434/v1"),
    ("vllm", "vLLM", "http://127.0.0.1:8000/v1"),
    ("llamacpp", "llama.cpp", "http://127.0.0.1:8080/v1"),
)
"""Local servers in order of preference: provider, name for people, usual address."""


async def discover(
    environ: Mapping[str, str],
    home: Path,
    *,
    probe: Probe | None = None,
    servers: tuple[tuple[str, str, str], ...] = SERVERS,
) -> Found:
    """Find models without a configuration. Never raises.

    Args:
        environ: as `read_environ` returns it.
        home: DEER_FLOW_HOME, where the embedded model is kept.
        probe: asks an endpoint for its model; None = over HTTP.
        servers: local servers to ask.
    """
    ask = probe or model_of
    models, notes = await _by_keys(environ, ask)
    if models:
        return Found(
            models, " ".join([f"Using {_shown(models[0])}, from the environment.", *notes])
        )
    ids = await asyncio.gather(*(ask(url, "") for _, _, url in servers))
    for (provider, title, url), model in zip(servers, ids, strict=True):
        if model:
            entry = ModelConfig(name=provider, model=model, base_url=url, provider=provider)
            return Found((entry,), " ".join([f"Using {model} of {title} on this machine.", *notes]))
    return await _embedded(home, notes)


async def model_of(base_url: str, api_key: str) -> str | None:
    """The first chat model that an OpenAI-compatible endpoint lists, within PROBE_SECONDS."""
    timeout = aiohttp.ClientTimeout(total=PROBE_SECONDS)
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers) as session,
            session.get(f"{base_url.rstrip('/')}/models", allow_redirects=False) as reply,
        ):
            listed = json.loads(await reply.content.read(1 << 20)) if reply.status == 200 else None
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return None
    return _first_chat_model(listed)


def _first_chat_model(listed: Any) -> str | None:
    """Out of `{data: [{id}]}`; what is named an embedding or a reranker cannot chat."""
    data: Any = cast("dict[str, Any]", listed).get("data") if isinstance(listed, dict) else None
    for entry in cast("list[Any]", data) if isinstance(data, list) else ():
        found: Any = cast("dict[str, Any]", entry).get("id") if isinstance(entry, dict) else None
        if isinstance(found, str) and found and not _is_no_chat(found.lower()):
            return found
    return None


def _is_no_chat(name: str) -> bool:
    return any(word in name for word in ("embed", "rerank", "whisper", "tts", "bge-"))


async def _by_keys(
    environ: Mapping[str, str], ask: Probe
) -> tuple[tuple[ModelConfig, ...], list[str]]:
    models: list[ModelConfig] = []
    notes: list[str] = []
    for known in _KEYS:
        variable = next((name for name in known.variables if environ.get(name)), None)
        if variable is None:
            continue
        if known.module and importlib.util.find_spec(known.module) is None:
            package = PROVIDERS[known.provider].package
            notes.append(f"{variable} is set, but {package} is not installed.")
            continue
        models.append(await _by_key(known, environ, environ[variable], ask))
    return tuple(models), notes


async def _by_key(known: _Key, environ: Mapping[str, str], key: str, ask: Probe) -> ModelConfig:
    own_url = environ.get(known.url_variable, "") if known.url_variable else ""
    model = environ.get(known.model_variable, "")
    if own_url and not model:  # another server behind the usual variables has names of its own
        model = await ask(own_url, key) or ""
    url = own_url or known.base_url
    prefix = f"{known.provider}:" if known.provider in PROVIDERS else ""
    settings: dict[str, Any] = {"base_url": url, "provider": None if prefix else known.provider}
    return ModelConfig(
        name=known.provider,
        model=f"{prefix}{model or known.model}",
        api_key=key,
        supports_vision=known.vision and not own_url,
        **{name: value for name, value in settings.items() if value},
    )


async def _embedded(home: Path, notes: list[str]) -> Found:
    entry = ModelConfig.model_validate(
        {
            "name": EMBEDDED,
            "use": "local",
            "model": SMOLLM2.title,
            "context_window": EMBEDDED_WINDOW,
            "compact": True,
            "home": str(home),
        }
    )
    line = (
        f"No model is configured: using the embedded {SMOLLM2.title}. It is small; set a key or "
        "write a config.yaml for real work."
    )
    if not await asyncio.to_thread(bundled(home).is_file):
        notes = [*notes, f"Its file is missing. {CURE}"]
    return Found((entry,), " ".join([line, *notes]))


def _shown(config: ModelConfig) -> str:
    return (config.model or config.name).removeprefix(f"{config.name}:")
