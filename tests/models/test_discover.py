"""The order in which models are found, and what is said of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from deerflow.models.catalog import ModelCatalog
from deerflow.models.discover import EMBEDDED, SERVERS, Found, discover, model_of
from deerflow.models.gguf import bundled
from deerflow.models.local import LocalChatModel
from deerflow.models.openai import OpenAIChatModel
from deerflow.models.wire import WireModel


class Offers:
    """A probe that knows the models of some addresses."""

    def __init__(self, models: Mapping[str, str] | None = None) -> None:
        self.models = dict(models or {})
        self.asked: list[tuple[str, str]] = []

    async def __call__(self, base_url: str, api_key: str) -> str | None:
        self.asked.append((base_url, api_key))
        return self.models.get(base_url)


async def found(home: Path, probe: Offers, **environ: str) -> Found:
    return await discover(environ, home, probe=probe)


def inner(result: Found, environ: Mapping[str, str] | None = None) -> Any:
    model = ModelCatalog(result.models, environ=environ).get(result.models[0].name)
    assert isinstance(model, WireModel)
    return model.inner


async def test_a_key_wins_over_a_server(tmp_path: Path) -> None:
    probe = Offers({url: "llama3" for _, _, url in SERVERS})
    result = await found(tmp_path, probe, DEEPSEEK_API_KEY="sk-1")
    assert result.models[0].model == "deepseek:deepseek-chat"
    assert probe.asked == []
    assert "deepseek-chat" in result.line
    assert "sk-1" not in result.line
    assert isinstance(inner(result), OpenAIChatModel)


async def test_keys_keep_their_order_and_names_of_models(tmp_path: Path) -> None:
    result = await found(
        tmp_path,
        Offers(),
        DASHSCOPE_API_KEY="d",
        GOOGLE_API_KEY="g",
        OPENAI_API_KEY="o",
        OPENAI_MODEL="my-model",
        OPENROUTER_API_KEY="",
    )
    assert [model.name for model in result.models] == ["openai", "gemini", "dashscope"]
    assert result.models[0].model == "openai:my-model"
    assert [model.api_key for model in result.models] == ["o", "g", "d"]


@pytest.mark.parametrize(
    "variable",
    [
        "OPENAI_API_KEY",
        "DEEPSEEK_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "OPENROUTER_API_KEY",
        "DASHSCOPE_API_KEY",
        "MOONSHOT_API_KEY",
        "MINIMAX_API_KEY",
    ],
)
async def test_every_key_gives_a_model_that_can_be_built(tmp_path: Path, variable: str) -> None:
    result = await found(tmp_path, Offers(), **{variable: "sk-1"})
    assert isinstance(inner(result, {}), OpenAIChatModel)


async def test_another_server_behind_the_openai_variables(tmp_path: Path) -> None:
    url = "http://gpu.example/v1"
    probe = Offers({url: "qwen"})
    result = await found(tmp_path, probe, OPENAI_API_KEY="k", OPENAI_BASE_URL=url)
    assert result.models[0].base_url == url
    assert result.models[0].model == "openai:qwen"
    assert not result.models[0].supports_vision
    assert probe.asked == [(url, "k")]


async def test_local_servers_in_order(tmp_path: Path) -> None:
    probe = Offers({SERVERS[1][2]: "mistral", SERVERS[2][2]: "phi"})
    result = await found(tmp_path, probe)
    assert (result.models[0].name, result.models[0].model) == ("vllm", "mistral")
    assert "mistral of vLLM" in result.line
    assert isinstance(inner(result), OpenAIChatModel)


async def test_else_the_embedded_model(tmp_path: Path) -> None:
    result = await found(tmp_path, Offers())
    assert result.models[0].name == EMBEDDED
    assert "small" in result.line
    assert "deerflow models pull" in result.line
    model = inner(result)
    assert isinstance(model, LocalChatModel)
    assert model.home == tmp_path
    assert ModelCatalog(result.models).spec(EMBEDDED).compact


async def test_the_line_is_one_line_and_shorter_when_the_file_is_there(tmp_path: Path) -> None:
    bundled(tmp_path).parent.mkdir()
    bundled(tmp_path).touch()
    result = await found(tmp_path, Offers())
    assert "\n" not in result.line
    assert "deerflow models pull" not in result.line


@asynccontextmanager
async def endpoint(reply: Any, status: int = 200) -> AsyncIterator[str]:
    async def models(_request: web.Request) -> web.Response:
        return web.json_response(reply, status=status)

    app = web.Application()
    app.router.add_get("/v1/models", models)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"http://{host}:{port}/v1"
    finally:
        await runner.cleanup()


async def test_a_server_is_asked_for_its_first_chat_model() -> None:
    data = [{"id": "nomic-embed-text"}, {"id": "llama3:8b"}, {"id": "phi"}]
    async with endpoint({"data": data}) as url:
        assert await model_of(url, "") == "llama3:8b"


@pytest.mark.parametrize(
    ("reply", "status"),
    [({"data": []}, 200), ([], 200), ("no", 200), ({"data": [7, {"id": 3}]}, 200), ({}, 500)],
)
async def test_anything_else_is_no_model(reply: Any, status: int) -> None:
    async with endpoint(reply, status) as url:
        assert await model_of(url, "") is None


async def test_nobody_there_is_no_model() -> None:
    assert await model_of("http://127.0.0.1:9/v1", "") is None
