"""What counts as a secret, and how it is hidden."""

from __future__ import annotations

import pytest

from deerflow.config.schema import McpServerConfig, ModelConfig
from deerflow.config.section import is_secret, masked


@pytest.mark.parametrize(
    "name",
    [
        "api_key",
        "apikey",
        "openai_api_key",
        "x-api-key",
        "bot_token",
        "client_secret",
        "password",
        "Authorization",
        "postgres_url",
        "redis_url",
        "connection_string",
    ],
)
def test_secrets(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name", ["max_tokens", "base_url", "token_url", "token_field", "keywords", "model", "keep"]
)
def test_what_may_be_shown(name: str) -> None:
    assert not is_secret(name)


def test_no_repr_of_a_section_shows_a_secret_inside_a_mapping() -> None:
    headers = {"X-Anything": "s3cret"}
    server = McpServerConfig(type="http", url="https://u:s3cret@host/", headers=headers)
    model = ModelConfig.model_validate(
        {"name": "a", "model": "o:b", "default_headers": headers, "kwargs": {"token": "s3cret"}}
    )
    assert "s3cret" not in repr((server, model))
    assert server.headers == headers


def test_secrets_are_masked_wherever_they_stand() -> None:
    shown = masked(
        {
            "api_key": "s3cret",
            "postgres_url": "s3cret",
            "max_tokens": 5,
            "base_url": "https://user:s3cret@host/v1",
            "headers": {"X-Anything": "s3cret"},
            "channels": {"slack": {"bot_token": "s3cret", "name": "bot"}},
            "list": [{"client_secret": "s3cret"}],
            "password": None,
        }
    )
    assert "s3cret" not in str(shown)
    assert shown["max_tokens"] == 5
    assert shown["base_url"] == "https://***@host/v1"
    assert shown["channels"]["slack"]["name"] == "bot"
    assert shown["password"] is None
