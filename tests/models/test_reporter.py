"""Any chat class streams under the limits and reports what it streams."""

from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from deerflow.errors import ModelTimeoutError
from deerflow.models.protocol import delta_sink
from deerflow.models.reporter import DeltaReporter, reporting
from deerflow.models.resilience import Limits, limited
from fakes.openai_endpoint import Call, OpenAIEndpoint, Turn

ASK = [HumanMessage("go")]


def sdk(endpoint: OpenAIEndpoint) -> Any:
    return reporting(
        ChatOpenAI(model="m", base_url=endpoint.base_url, api_key=SecretStr("k"), max_retries=0)
    )


async def heard_from(endpoint: OpenAIEndpoint) -> tuple[Any, list[tuple[str, str]]]:
    heard: list[tuple[str, str]] = []
    token = delta_sink.set(lambda kind, text: heard.append((kind, text)))
    try:
        reply = await sdk(endpoint).ainvoke(ASK)
    finally:
        delta_sink.reset(token)
    return reply, heard


async def test_a_foreign_class_reports_its_text_in_pieces():
    async with OpenAIEndpoint(Turn(text="some words")) as endpoint:
        reply, heard = await heard_from(endpoint)
    assert reply.text == "some words"
    texts = [text for kind, text in heard if kind == "text"]
    assert "".join(texts) == "some words" and len(texts) > 1


async def test_arguments_of_calls_are_signs_of_life():
    turn = Turn(calls=[Call("bash", {"command": "ls -la"})])
    async with OpenAIEndpoint(turn) as endpoint:
        reply, heard = await heard_from(endpoint)
    assert reply.tool_calls[0]["args"] == {"command": "ls -la"}
    assert "ls -la" in "".join(text for kind, text in heard if kind == "call")
    assert not any(kind == "text" for kind, _ in heard)


async def test_without_a_sink_nothing_is_reported():
    async with OpenAIEndpoint(Turn(text="quiet")) as endpoint:
        assert (await sdk(endpoint).ainvoke(ASK)).text == "quiet"


@pytest.mark.parametrize(("stall", "words"), [("first", "sent nothing"), ("middle", "stalled")])
async def test_p20_the_limits_hold_for_a_foreign_class(stall: Any, words: str):
    async with OpenAIEndpoint(Turn(text="words without an end", stall=stall)) as endpoint:
        model = sdk(endpoint)
        with pytest.raises(ModelTimeoutError, match=words):
            await limited(lambda: model.ainvoke(ASK), Limits(0.5, 0.3), model="m")


async def test_a_model_has_one_reporter():
    async with OpenAIEndpoint() as endpoint:
        model = reporting(sdk(endpoint))
        assert [type(each) for each in model.callbacks] == [DeltaReporter]
