"""Limits, retries and fall-over, with scripted models and a misbehaving endpoint."""

import asyncio
import itertools
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from deerflow.config.models import CircuitBreakerConfig, LlmCallConfig
from deerflow.errors import (
    ContextOverflowError,
    ModelAuthError,
    ModelError,
    ModelPaymentError,
    ModelRequestError,
    ModelTimeoutError,
    ModelUnavailableError,
    RateLimitError,
    ScriptError,
)
from deerflow.models.openai import OpenAIChatModel
from deerflow.models.protocol import delta_sink
from deerflow.models.resilience import (
    LONGEST_OBEYED_WAIT,
    Limits,
    Resilience,
    Retry,
    RetryPolicy,
    limited,
)
from deerflow.models.scripted import ScriptedChatModel
from fakes.openai_endpoint import OpenAIEndpoint, Turn

ASK = [HumanMessage("go")]
Attempt = Callable[[str], Awaitable[AIMessage]]


class Waits:
    """Stands for asyncio.sleep: notes the seconds and yields to the loop."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)


def resilience(waits: Waits, **call: Any) -> Resilience:
    breaker = call.pop("breaker", CircuitBreakerConfig())
    models, clock = call.pop("models", 2), call.pop("clock", time.monotonic)
    return Resilience(
        LlmCallConfig(**call),
        breaker,
        models=models,
        clock=clock,
        sleep=waits,
        rng=random.Random(7),
    )


def scripts(**models: list[Any]) -> tuple[Attempt, dict[str, ScriptedChatModel]]:
    made = {name: ScriptedChatModel(script=turns, model=name) for name, turns in models.items()}
    return lambda name: made[name].ainvoke(ASK), made


# ---- waits ---------------------------------------------------------------------------------------


def test_p20_waits_are_jittered_doubled_and_capped():
    policy = RetryPolicy(attempts=9)
    error = ModelUnavailableError("down")
    drawn = [
        [policy.wait(error, number, random.Random(seed)) for seed in range(50)]
        for number in range(1, 8)
    ]
    for number, waits in enumerate(drawn):
        longest = min(8.0, 2.0**number)
        assert all(wait is not None and longest / 2 <= wait <= longest for wait in waits)
        assert len(set(waits)) > 40, "runs that failed together must not return together"


def test_p20_too_many_requests_waits_from_the_burst_base():
    policy = RetryPolicy.from_config(LlmCallConfig())
    wait = policy.wait(RateLimitError("busy"), 1, random.Random(1))
    assert wait is not None and 2.5 <= wait <= 5
    second = policy.wait(RateLimitError("busy"), 2, random.Random(1))
    assert second is not None and 4 <= second <= 8


def test_p20_retry_after_is_obeyed_up_to_a_bound():
    policy = RetryPolicy()
    wait = policy.wait(RateLimitError("busy", retry_after=12), 1, random.Random(1))
    assert wait is not None and 12 <= wait <= 13
    far = RateLimitError("busy", retry_after=LONGEST_OBEYED_WAIT + 1)
    assert policy.wait(far, 1, random.Random(1)) is None


def test_no_wait_after_the_last_attempt_or_a_refusal():
    policy = RetryPolicy()
    assert policy.wait(ModelUnavailableError("down"), 3, random.Random(1)) is None
    assert policy.wait(ModelRequestError("no"), 1, random.Random(1)) is None


# ---- limits --------------------------------------------------------------------------------------


async def test_p20_no_first_byte_is_a_timeout_that_names_the_limit():
    model = ScriptedChatModel(script=[{"text": "late", "delay_ms": 600_000}])
    with pytest.raises(ModelTimeoutError, match="sent nothing within 0.02 s.*first_byte"):
        await limited(lambda: model.ainvoke(ASK), Limits(0.02, 60), model="m")


async def test_p20_a_stall_in_mid_stream_is_a_timeout():
    model = ScriptedChatModel(script=[{"text": "one two", "gap_ms": 600_000}])
    with pytest.raises(ModelTimeoutError, match="stalled: nothing for 0.02 s.*idle_timeout"):
        await limited(lambda: model.ainvoke(ASK), Limits(60, 0.02), model="m")


async def test_p20_a_slow_but_steady_answer_is_not_stopped():
    model = ScriptedChatModel(script=[{"text": "w " * 30, "gap_ms": 40}])
    reply = await limited(lambda: model.ainvoke(ASK), Limits(0.6, 0.6), model="m")
    assert len(reply.text.split()) == 30


async def test_the_outer_sink_hears_everything_and_is_restored():
    heard: list[str] = []
    sink = lambda _kind, text: heard.append(text)  # noqa: E731
    token = delta_sink.set(sink)
    model = ScriptedChatModel(script=["a b"])
    await limited(lambda: model.ainvoke(ASK), Limits(), model="m")
    assert heard == ["a ", "b"]
    assert delta_sink.get() is sink
    delta_sink.reset(token)


async def test_a_time_out_of_the_callers_own_passes():
    async def own() -> None:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        await limited(own, Limits(), model="m")


async def test_p20_cancellation_passes_at_once_and_is_not_retried():
    waits = Waits()
    model = ScriptedChatModel(script=[{"text": "one two", "gap_ms": 600_000}])
    begun = asyncio.Event()
    token = delta_sink.set(lambda _kind, _text: begun.set())
    call = resilience(waits).call(lambda _name: model.ainvoke(ASK), ["m"])
    task = asyncio.create_task(call)
    delta_sink.reset(token)
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(model.requests) == 1 and waits.seconds == []


# ---- retries and fall-over -----------------------------------------------------------------------


async def test_p20_500_twice_then_fine():
    waits, told = Waits(), list[Retry]()
    attempt, made = scripts(m=[{"error": "server", "times": 2}, "fine"])
    reply = await resilience(waits).call(attempt, ["m"], on_retry=told.append)
    assert reply.text == "fine"
    assert len(made["m"].requests) == 3
    assert [(r.model, r.attempt, r.code, r.next_model) for r in told] == [
        ("m", 1, "model_unavailable", "m"),
        ("m", 2, "model_unavailable", "m"),
    ]
    assert [r.wait_seconds for r in told] == waits.seconds
    assert 0.5 <= waits.seconds[0] <= 1 <= waits.seconds[1] <= 2


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("auth", ModelAuthError),
        ("payment", ModelPaymentError),
        ("request", ModelRequestError),
        ("context", ContextOverflowError),
        ("script", ScriptError),
    ],
)
async def test_p20_what_a_retry_cannot_help_is_told_at_once(code: str, kind: type[ModelError]):
    waits, told = Waits(), list[Retry]()
    attempt, made = scripts(m=[{"error": code}, "never"])
    with pytest.raises(kind):
        await resilience(waits).call(attempt, ["m"], on_retry=told.append)
    assert len(made["m"].requests) == 1
    assert waits.seconds == [] and told == []


@pytest.mark.parametrize("code", ["request", "context", "script"])
async def test_a_refused_request_is_not_carried_to_the_next_model(code: str):
    attempt, made = scripts(m=[{"error": code}], spare=["no"])
    with pytest.raises(ModelRequestError if code != "script" else ScriptError):
        await resilience(Waits()).call(attempt, ["m", "spare"])
    assert made["spare"].requests == []


@pytest.mark.parametrize("code", ["auth", "payment"])
async def test_p20_trouble_with_the_account_goes_to_the_next_model_without_waiting(code: str):
    waits, told = Waits(), list[Retry]()
    attempt, _ = scripts(m=[{"error": code}], spare=["here"])
    reply = await resilience(waits).call(attempt, ["m", "spare"], on_retry=told.append)
    assert reply.text == "here"
    assert waits.seconds == []
    assert [(r.model, r.next_model, r.wait_seconds) for r in told] == [("m", "spare", 0.0)]


async def test_p20_a_dead_model_is_left_for_the_next_after_its_attempts():
    waits, told = Waits(), list[Retry]()
    attempt, made = scripts(m=[{"error": "server", "times": 9}], spare=["here"])
    reply = await resilience(waits).call(attempt, ["m", "spare"], on_retry=told.append)
    assert reply.text == "here"
    assert len(made["m"].requests) == 3
    assert [r.next_model for r in told] == ["m", "m", "spare"]


async def test_p20_a_wait_that_is_too_long_goes_to_the_next_model():
    waits = Waits()
    attempt, made = scripts(
        m=[{"error": {"code": "rate_limit", "retry_after": 3600}}], spare=["here"]
    )
    assert (await resilience(waits).call(attempt, ["m", "spare"])).text == "here"
    assert waits.seconds == [] and len(made["m"].requests) == 1


async def test_when_no_model_answers_the_error_says_what_each_said():
    attempt, _ = scripts(
        m=[{"error": {"code": "payment", "message": "m is unpaid."}}],
        spare=[{"error": {"code": "server", "message": "spare is down."}, "times": 3}],
    )
    with pytest.raises(ModelUnavailableError, match="None of the 2.*m is unpaid. spare is down."):
        await resilience(Waits()).call(attempt, ["m", "spare"])


async def test_an_error_that_is_no_model_trouble_passes():
    async def broken(_name: str) -> AIMessage:
        raise KeyError("bug")

    with pytest.raises(KeyError):
        await resilience(Waits()).call(broken, ["m", "spare"])


async def test_p20_the_breaker_is_shared_by_all_runs_and_skips_the_dead_model():
    waits = Waits()
    seconds = itertools.count()  # the next call comes a second later
    guard = resilience(waits, clock=lambda: float(next(seconds)))
    attempt, made = scripts(m=[{"error": "server", "times": 99}], spare=[{"text": "x", "times": 9}])
    for _ in range(4):
        await guard.call(attempt, ["m", "spare"])
    assert guard.breaker("m").state == "open"
    assert len(made["m"].requests) == 5
    assert len(waits.seconds) == 3, "a paused model is not waited for"


async def test_p20_one_hung_model_leaves_slots_for_the_others():
    guard = resilience(Waits(), max_concurrent_calls=4)
    hung = ScriptedChatModel(script=[{"text": "x", "delay_ms": 600_000, "times": 30}])
    well = ScriptedChatModel(script=[{"text": "fine", "times": 30}])
    models = {"hung": hung, "well": well}

    async def attempt(name: str) -> AIMessage:
        return await models[name].ainvoke(ASK)

    stuck = [asyncio.create_task(guard.call(attempt, ["hung"])) for _ in range(30)]
    replies = await asyncio.gather(*(guard.call(attempt, ["well"]) for _ in range(30)))
    assert {reply.text for reply in replies} == {"fine"}
    assert len(hung.requests) == 3
    for task in stuck:
        task.cancel()
    await asyncio.gather(*stuck, return_exceptions=True)


# ---- over the wire -------------------------------------------------------------------------------


async def test_p20_thirty_runs_on_a_dead_endpoint_block_nobody_and_fall_over():
    """The dead endpoint accepts and never answers; others are served before it gives any run up."""
    waiting = iter(range(30))
    all_wait = asyncio.Event()

    def hang(_body: Any) -> Turn:
        if next(waiting) == 29:
            all_wait.set()
        return Turn(stall="headers")

    async with (
        OpenAIEndpoint(respond=hang) as dead,
        OpenAIEndpoint(default=Turn(text="alive")) as well,
    ):
        models = {
            name: OpenAIChatModel(model=name, label=name, base_url=endpoint.base_url, api_key="k")
            for name, endpoint in (("dead", dead), ("well", well))
        }

        async def attempt(name: str) -> AIMessage:
            return await models[name].ainvoke(ASK)

        guard = resilience(Waits(), first_byte_timeout_seconds=1.0, retry_max_attempts=1)
        runs = [asyncio.create_task(guard.call(attempt, ["dead", "well"])) for _ in range(30)]
        await all_wait.wait()
        others = await asyncio.gather(*(guard.call(attempt, ["well"]) for _ in range(10)))
        assert not any(run.done() for run in runs)
        assert {reply.text for reply in others} == {"alive"}
        replies = await asyncio.gather(*runs)
        assert {reply.text for reply in replies} == {"alive"}
        assert guard.breaker("dead").state == "open"
        for model in models.values():
            await model.pool.aclose()


@pytest.mark.parametrize("stall", ["first", "middle", "comments"])
async def test_p20_stalls_on_the_wire_are_limited(stall: Any):
    turn = Turn(text="some words that never end", stall=stall)
    async with OpenAIEndpoint(turn, Turn(text="again")) as endpoint:
        model = OpenAIChatModel(model="m", base_url=endpoint.base_url, api_key="k")
        guard = resilience(Waits(), first_byte_timeout_seconds=0.3, idle_timeout_seconds=0.3)
        told = list[Retry]()
        reply = await guard.call(lambda _n: model.ainvoke(ASK), ["m"], on_retry=told.append)
        assert reply.text == "again"
        assert [r.code for r in told] == ["model_timeout"]
        await model.pool.aclose()


async def test_p20_unpaid_over_the_wire_is_told_in_clear_words_and_then_goes_on():
    async with OpenAIEndpoint(Turn(status=402), Turn(text="paid now")) as endpoint:
        model = OpenAIChatModel(model="m", label="m", base_url=endpoint.base_url, api_key="k")
        guard = resilience(Waits())
        with pytest.raises(ModelPaymentError, match="'m'.*no credit"):
            await guard.call(lambda _name: model.ainvoke(ASK), ["m"])
        reply = await guard.call(lambda _name: model.ainvoke(ASK), ["m"])
        assert reply.text == "paid now"
        await model.pool.aclose()


async def test_a_model_may_have_limits_of_its_own():
    resilience = Resilience(
        LlmCallConfig(first_byte_timeout_seconds=30, retry_max_attempts=1), CircuitBreakerConfig()
    )
    resilience.allow("slow", first_byte=0.02, idle=None)
    assert resilience.limits_of("other").first_byte == 30

    async def hang(name: str) -> str:
        await asyncio.Event().wait()
        return name

    with pytest.raises(ModelTimeoutError, match="slow"):
        await resilience.call(hang, ["slow"])
