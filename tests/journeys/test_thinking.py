"""What a client asks of thinking reaches the model's endpoint, and nothing else does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deerflow.config.schema import AppConfig
from deerflow.runtime.request import RunRequest
from deerflow.wiring.runtime import open_runtime
from fakes.harness import loaded
from fakes.openai_endpoint import OpenAIEndpoint, Turn

ASKED: list[tuple[dict[str, Any], Any, Any]] = [
    ({}, None, None),
    ({"thinking_enabled": True}, {"type": "enabled"}, None),
    ({"thinking_enabled": False}, {"type": "disabled"}, None),
    ({"thinking_enabled": True, "reasoning_effort": "high"}, {"type": "enabled"}, "high"),
    ({"thinking_enabled": False, "reasoning_effort": "high"}, {"type": "disabled"}, None),
]


@pytest.mark.parametrize(("context", "thinking", "effort"), ASKED, ids=str)
async def test_thinking_is_asked_of_the_endpoint(
    tmp_path: Path, context: dict[str, Any], thinking: Any, effort: Any
) -> None:
    received = await sent(tmp_path, context, supports_thinking=True)
    assert (received.get("thinking"), received.get("reasoning_effort")) == (thinking, effort)


async def test_a_model_that_cannot_think_is_not_asked_to(tmp_path: Path) -> None:
    context = {"thinking_enabled": True, "reasoning_effort": "high"}
    received = await sent(tmp_path, context, supports_reasoning_effort=False)
    assert not {"thinking", "reasoning_effort"} & received.keys()


async def sent(home: Path, context: dict[str, Any], **facts: Any) -> dict[str, Any]:
    """The request that a run of this context sends."""
    async with OpenAIEndpoint(Turn(text="ok")) as endpoint:
        model: dict[str, Any] = {
            "name": "m",
            "model": "m",
            "base_url": endpoint.base_url,
            "api_key": "k",
            "supports_reasoning_effort": True,
            "when_thinking_enabled": {"extra_body": {"thinking": {"type": "enabled"}}},
            "when_thinking_disabled": {"extra_body": {"thinking": {"type": "disabled"}}},
            **facts,
        }
        raw: dict[str, Any] = {
            "models": [model],
            "database": {"backend": "memory"},
            "sandbox": {"use": "memory"},
            "title": {"enabled": False},
        }
        whole = loaded(AppConfig.model_validate(raw), home)
        async with open_runtime(whole, {}, durable=False) as runtime:
            request = RunRequest(task="hi", thread_id="t", user_id="anna", context=context)
            run = (await runtime.submissions.submit(request)).run
            ended = await runtime.submissions.wait(run.thread_key, run.run_id)
            assert ended.status == "success"
        (received,) = endpoint.requests
        return received.body
