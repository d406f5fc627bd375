"""What becomes of a `models` section."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI

from deerflow.config.schema import AppConfig, ModelConfig
from deerflow.errors import ConfigError, NotFoundError
from deerflow.models.catalog import ModelCatalog, check, create_chat_model
from deerflow.models.local import LocalChatModel
from deerflow.models.openai import OpenAIChatModel
from deerflow.models.protocol import Catalog, Pricing
from deerflow.models.providers import proxy_for
from deerflow.models.scripted import ScriptedChatModel
from deerflow.models.wire import WireModel
from fakes.openai_endpoint import OpenAIEndpoint, Turn

KEYS = {"OPENAI_API_KEY": "sk-env", "ANTHROPIC_API_KEY": "ak-env", "DEEPSEEK_API_KEY": "dk-env"}


def catalog(*entries: dict[str, Any], environ: dict[str, str] | None = None) -> ModelCatalog:
    models = tuple(ModelConfig(**{"name": "main", **entry}) for entry in entries)
    return ModelCatalog(models, environ=KEYS if environ is None else environ)


def inner(made: ModelCatalog, name: str = "main", *, thinking: bool | None = None) -> Any:
    model = made.get(name, thinking=thinking)
    assert isinstance(model, WireModel)
    return model.inner


def test_it_is_a_catalog() -> None:
    made: Catalog = catalog({"model": "openai:gpt-x"}, {"name": "b", "model": "openai:gpt-y"})
    assert made.default == "main" and made.names() == ["main", "b"]
    model = made.get("main")
    assert model is made.get("main")
    assert made.spec_of(model) == made.spec("main")
    assert made.spec_of(model.bind_tools([])) == made.spec("main")


def test_shorthand_openai() -> None:
    made = inner(catalog({"model": "openai:gpt-x", "temperature": 0.5, "seed": 3}))
    assert type(made) is OpenAIChatModel
    assert (made.model, made.temperature, made.seed) == ("gpt-x", 0.5, 3)
    assert made.base_url == "https://api.openai.com/v1"
    assert made.api_key.get_secret_value() == "sk-env"


def test_shorthand_of_a_compatible_provider() -> None:
    made = catalog({"model": "deepseek:deepseek-reasoner"})
    assert made.spec("main").provider == "deepseek"
    assert inner(made).base_url == "https://api.deepseek.com/v1"
    assert inner(made).api_key.get_secret_value() == "dk-env"


def test_shorthand_through_langchain() -> None:
    made = catalog({"model": "anthropic:claude-x", "max_tokens": 100})
    assert isinstance(inner(made), ChatAnthropic)
    assert inner(made).max_tokens == 100
    assert made.spec("main").provider == "anthropic"


@pytest.mark.parametrize(
    ("model", "name"), [("qwen3:8b", "qwen3:8b"), ("openai:gpt-x", "gpt-x"), ("m", "m")]
)
def test_base_url_makes_the_lean_model(model: str, name: str) -> None:
    made = catalog({"model": model, "base_url": "http://localhost:8000/v1/"}, environ={})
    assert type(inner(made)) is OpenAIChatModel
    assert inner(made).base_url == "http://localhost:8000/v1"
    assert made.spec("main").model == name == inner(made).model
    assert made.spec("main").provider == "localhost:8000"


def test_class_path_of_the_sdk() -> None:
    entry = {
        "use": "langchain_openai:ChatOpenAI",
        "model": "m",
        "base_url": "http://localhost:1/v1",
    }
    made = inner(catalog({**entry, "api_key": "k", "top_p": 0.1}))
    assert type(made) is ChatOpenAI
    assert made.top_p == 0.1 and made.stream_usage is True


@pytest.mark.parametrize(
    ("use", "provider", "url"),
    [
        ("deerflow.models.vllm_provider:VllmChatModel", "vllm", "http://localhost:8000/v1"),
        ("deerflow.models.patched_openai:PatchedChatOpenAI", "openai", "https://api.openai.com/v1"),
        (
            "deerflow.models.patched_deepseek:PatchedChatDeepSeek",
            "deepseek",
            "https://api.deepseek.com/v1",
        ),
        (
            "deerflow.models.patched_minimax:PatchedChatMiniMax",
            "minimax",
            "https://api.minimax.io/v1",
        ),
    ],
)
def test_class_paths_of_older_files(use: str, provider: str, url: str) -> None:
    made = catalog({"use": use, "model": "m", "api_key": "k"})
    assert isinstance(inner(made), OpenAIChatModel)
    assert inner(made).base_url == url
    assert made.spec("main").provider == provider


def test_older_address_key() -> None:
    use = "deerflow.models.patched_deepseek:PatchedChatDeepSeek"
    made = catalog({"use": use, "model": "m", "api_key": "k", "api_base": "http://ark.local/v3"})
    assert inner(made).base_url == "http://ark.local/v3"
    assert made.spec("main").provider == "ark.local"


def test_scripted() -> None:
    made = catalog({"use": "scripted", "script": [{"text": "hi"}]})
    assert isinstance(inner(made), ScriptedChatModel)
    assert made.spec("main").provider == "scripted"


def test_local(tmp_path: Path) -> None:
    models = (ModelConfig(name="main", use="local"), ModelConfig(name="b", model="local:tiny"))
    made = ModelCatalog(models, home=tmp_path)
    assert isinstance(inner(made), LocalChatModel)
    assert inner(made).home == tmp_path
    spec = made.spec("main")
    assert (spec.provider, spec.compact, spec.context_window) == ("local", True, 4096)
    assert inner(made, "b").model == "tiny"


async def test_settings_of_the_embedded_model_reach_no_endpoint() -> None:
    async with OpenAIEndpoint() as endpoint:
        made = catalog({"model": "m", "base_url": endpoint.base_url, "compact": True})
        await made.get("main").bind_tools([], deliverables=["a.md"]).ainvoke("go")
        await made.get("main").bind(deliverables=["a.md"]).ainvoke("go")
        await made.aclose()
    assert all("deliverables" not in request.body for request in endpoint.requests)


def test_spec_takes_the_capabilities() -> None:
    entry = {
        "model": "openai:gpt-x",
        "context_window": 1000,
        "max_tokens": 50,
        "supports_vision": True,
        "supports_thinking": True,
        "supports_tools": False,
        "compact": True,
        "pricing": {"currency": "EUR", "input": 1, "output": 2},
        "api_key": "sk-1",
    }
    spec = catalog(entry).spec("main")
    assert (spec.context_window, spec.max_output) == (1000, 50)
    assert spec.vision and spec.thinking and spec.compact and not spec.tools
    assert spec.pricing == Pricing("EUR", 1, 2)
    assert "sk-1" not in str(spec)


async def test_thinking_keys_reach_the_wire() -> None:
    entry = {
        "model": "m",
        "supports_thinking": True,
        "extra_body": {"a": 1, "chat": {"x": 1}},
        "when_thinking_enabled": {"extra_body": {"chat": {"think": True}}},
        "when_thinking_disabled": {"extra_body": {"chat": {"think": False}}, "top_p": 0.2},
    }
    async with OpenAIEndpoint(default=Turn(text="ok")) as endpoint:
        made = catalog({**entry, "base_url": endpoint.base_url})
        for thinking in (None, True, False):
            await made.get("main", thinking=thinking).ainvoke("go")
        await made.aclose()
    bodies = [request.body for request in endpoint.requests]
    assert [body["chat"] for body in bodies] == [
        {"x": 1},
        {"x": 1, "think": True},
        {"x": 1, "think": False},
    ]
    assert [body.get("top_p") for body in bodies] == [None, None, 0.2]
    assert all(body["a"] == 1 for body in bodies)


async def test_short_thinking_key() -> None:
    entry = {"model": "m", "supports_thinking": True, "thinking": {"type": "enabled"}}
    async with OpenAIEndpoint() as endpoint:
        made = catalog({**entry, "base_url": endpoint.base_url})
        await made.get("main", thinking=True).ainvoke("go")
        await made.get("main", thinking=False).ainvoke("go")
        await made.aclose()
    assert [r.body["thinking"]["type"] for r in endpoint.requests] == ["enabled", "disabled"]


def test_unknown_name_names_the_nearest() -> None:
    made = catalog({"name": "deepseek", "model": "openai:x"})
    with pytest.raises(NotFoundError, match="Did you mean 'deepseek'"):
        made.get("deepsek")
    with pytest.raises(NotFoundError, match="No model is configured"):
        _ = catalog().default


def test_fallbacks() -> None:
    made = catalog(
        {"model": "openai:x", "fallbacks": ("b", "main", "b")},
        {"name": "b", "model": "openai:y", "fallbacks": ("gone",)},
    )
    assert made.fallbacks("main") == ["b"]
    with pytest.raises(NotFoundError):
        made.fallbacks("b")
    with pytest.raises(ConfigError, match=r"models\.b\.fallbacks"):
        check(made)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"use": "langchain_nowhere:ChatX", "model": "m"}, "uv pip install langchain-nowhere"),
    ({"use": "langchain_openai:ChatOpenIA", "model": "m"}, "did you mean ChatOpenAI"),
    ({"use": "json:JSONDecoder", "model": "m"}, "not a LangChain chat class"),
    ({"use": "deerflow.models.x:CodexChatModel", "model": "m"}, "openai:NAME"),
    ({"model": "nowhere:m"}, "nowhere"),
    ({"model": "groq:m"}, "uv pip install langchain-groq"),
    ({"model": "openai:m", "temperature": "warm"}, r"models\.main\.temperature"),
    ({"model": "m", "base_url": "http://127.0.0.1:99999/v1"}, r"main\.base_url: is no address"),
    ({"model": "m", "base_url": "http://[::1/v1"}, r"main\.base_url: is no address"),
    ({"model": "m", "base_url": "localhost:8000"}, "must begin with http"),
    ({"model": "m", "base_url": "http://"}, "name a host"),
    ({"model": "m", "base_url": "http://a b/v1"}, "name a host"),
    ({"model": "m", "base_url": "http://u:p@h/v1", "api_key": "k"}, "beside `api_key`"),
]


@pytest.mark.parametrize(("entry", "words"), WRONG)
def test_what_cannot_be_built_says_why(entry: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        catalog(entry).get("main")


def test_missing_key_names_the_variable() -> None:
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        catalog({"model": "openai:gpt-x"}, environ={}).get("main")


def test_wrong_keys_are_not_shown() -> None:
    entry = {
        "use": "langchain_openai:ChatOpenAI",
        "model": "m",
        "api_key": "sk-x",
        "temperature": "warm",
    }
    with pytest.raises(ConfigError) as caught:
        catalog(entry).get("main")
    assert "sk-x" not in str(caught.value)


def test_create_chat_model() -> None:
    config = AppConfig(models=(ModelConfig(name="a", model="openai:x", api_key="k"),))
    model = create_chat_model(config=config)
    assert isinstance(model, WireModel) and model.spec.name == "a"
    with pytest.raises(NotFoundError):
        create_chat_model("b", config=config)
    with pytest.raises(NotFoundError):
        create_chat_model(config=AppConfig())


def test_proxies_of_the_environment() -> None:
    environ = {"HTTPS_PROXY": "http://proxy:3128", "no_proxy": "corp.test, .inner.test"}
    assert proxy_for("https://api.openai.com/v1", environ) == "http://proxy:3128"
    assert proxy_for("https://x.corp.test/v1", environ) is None
    assert proxy_for("https://a.inner.test", environ) is None
    assert proxy_for("http://localhost:1", {"http_proxy": "http://p"}) is None
    assert proxy_for("http://host:1", environ) is None
