"""Row 15: failed calls are tried again and fall over in mid-run; the thread stays usable."""

import random
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from deerflow.agent.context import RunContext
from deerflow.agent.hooks import ModelCall, ModelReply
from deerflow.config.models import CircuitBreakerConfig, LlmCallConfig
from deerflow.errors import ModelPaymentError, ModelUnavailableError
from deerflow.middlewares.llm_error_handling import LLMErrorHandlingMiddleware
from deerflow.middlewares.token_usage import usage_of
from deerflow.models.resilience import Resilience
from deerflow.models.scripted import ScriptedChatModel
from fakes.agents import ModelRows
from fakes.catalogs import ScriptedCatalog
from fakes.rows import events, run_context


async def no_wait(_seconds: float) -> None:
    return None


def row(catalog: ScriptedCatalog) -> LLMErrorHandlingMiddleware:
    guard = Resilience(LlmCallConfig(), CircuitBreakerConfig(), sleep=no_wait, rng=random.Random(1))
    return LLMErrorHandlingMiddleware(catalog, guard)


async def terminal(call: ModelCall) -> ModelReply:
    reply = await call.model.ainvoke(call.messages)
    assert isinstance(reply, AIMessage)
    return ModelReply(reply)


def ask(run: RunContext, model: Any, text: str = "go") -> ModelCall:
    messages = [HumanMessage(text)]
    return ModelCall(model, messages, None, [], {}, {"messages": messages}, run, run.turn + 1)


async def test_p20_a_failed_attempt_is_told_and_tried_again():
    catalog = ScriptedCatalog(main=[{"error": "timeout"}, "fine"])
    run = run_context()
    reply = await row(catalog).model(ask(run, catalog.models["main"]), terminal)
    assert reply.message is not None and reply.message.text == "fine"
    (told,) = await events(run, "model_retry")
    assert told["model"] == told["next_model"] == "main"
    assert told["attempt"] == 1 and told["code"] == "model_timeout"
    assert told["message"] and 0.5 <= told["wait_seconds"] <= 1


async def test_p20_the_second_model_takes_over_in_mid_run_and_keeps_the_run():
    catalog = ScriptedCatalog(
        main=["turn one", {"error": "server", "times": 3}, "not asked any more"],
        spare=["turn two", "turn three"],
    )
    middleware, run, main = row(catalog), run_context(), catalog.models["main"]
    texts: list[str] = []
    for _ in range(3):
        reply = await middleware.model(ask(run, main), terminal)
        assert reply.message is not None
        texts.append(reply.message.text)
    assert texts == ["turn one", "turn two", "turn three"]
    assert [e["next_model"] for e in await events(run, "model_retry")] == ["main", "main", "spare"]
    other = await middleware.model(ask(run_context(run_id="r2"), main), terminal)
    assert other.message is not None and other.message.text == "not asked any more"


async def test_p20_a_fallen_over_run_may_come_back_when_the_spare_dies():
    catalog = ScriptedCatalog(
        main=[{"error": "server", "times": 3}, "back"],
        spare=["here", {"error": "auth"}],
    )
    middleware, run, main = row(catalog), run_context(), catalog.models["main"]
    await middleware.model(ask(run, main), terminal)
    reply = await middleware.model(ask(run, main), terminal)
    assert reply.message is not None and reply.message.text == "back"


async def test_p20_an_unpaid_call_does_not_lock_the_chat():
    catalog = ScriptedCatalog(main=[{"error": "payment"}, "paid now"])
    middleware, run, main = row(catalog), run_context(), catalog.models["main"]
    with pytest.raises(ModelPaymentError, match="no credit"):
        await middleware.model(ask(run, main), terminal)
    assert await events(run, "model_retry") == []
    reply = await middleware.model(ask(run_context(run_id="r2"), main), terminal)
    assert reply.message is not None and reply.message.text == "paid now"


async def test_everything_failing_ends_with_one_error():
    down = [{"error": "server", "times": 3}]
    catalog = ScriptedCatalog(main=down, spare=down)
    with pytest.raises(ModelUnavailableError, match="None of the 2 models"):
        await row(catalog).model(ask(run_context(), catalog.models["main"]), terminal)


async def test_a_model_from_outside_has_retries_and_no_fall_over():
    foreign = ScriptedChatModel(script=[{"error": "server"}, "mine"])
    catalog = ScriptedCatalog(main=["not me"])
    run = run_context(model_name="foreign")
    reply = await row(catalog).model(ask(run, foreign), terminal)
    assert reply.message is not None and reply.message.text == "mine"
    assert [e["model"] for e in await events(run, "model_retry")] == ["foreign"]


# ---- through the chain ---------------------------------------------------------------------------


def work(step: str) -> dict[str, Any]:
    return {"calls": [{"name": "work", "args": {"step": step}}]}


async def test_p20_through_the_chain_a_run_falls_over_between_its_turns():
    agent = ModelRows(
        ScriptedCatalog(
            main=[work("a"), {"text": "half an answ", "error": "server", "times": 3}],
            spare=[work("b"), {"text": "finished", "usage": {"input": 3, "output": 2}}],
        )
    )
    run = run_context()
    messages = await agent.run(run=run)
    assert [m.type for m in messages] == ["ai", "tool", "ai", "tool", "ai"]
    assert messages[-1].text == "finished"
    assert agent.effects == ["a", "b"]
    assert [e["next_model"] for e in await events(run, "model_retry")] == ["main", "main", "spare"]
    shown = [e["message"]["content"] for e in await events(run, "message")]
    assert "half an answ" not in shown
    assert usage_of(run)["by_model"]["spare"]["calls"] == 2


async def test_p20_through_the_chain_a_failed_turn_leaves_the_thread_usable():
    agent = ModelRows(ScriptedCatalog(main=[work("a"), {"error": "payment"}, "paid now"]))
    run = run_context()
    with pytest.raises(ModelPaymentError):
        await agent.run(run=run)
    agent.messages = []
    assert (await agent.run("again", run_context(run_id="r2")))[-1].text == "paid now"


async def test_p20_through_the_chain_a_steady_answer_outlives_the_first_byte_limit():
    agent = ModelRows(
        ScriptedCatalog(main=[{"text": "w " * 30, "gap_ms": 40}]),
        LlmCallConfig(first_byte_timeout_seconds=0.6, idle_timeout_seconds=0.6),
    )
    messages = await agent.run()
    assert len(messages[-1].text.split()) == 30
