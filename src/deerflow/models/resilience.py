"""Keeps a model call alive: limits, retries, breaker per model, fall-over to the next model.

One `Resilience` per process, made by the wiring; it waits without holding anything, so a dead model
costs its own callers time and nobody else.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from deerflow.config.models import CircuitBreakerConfig, LlmCallConfig
from deerflow.errors import (
    ModelAuthError,
    ModelError,
    ModelPaymentError,
    ModelTimeoutError,
    ModelUnavailableError,
    RateLimitError,
)
from deerflow.models.breaker import Breaker
from deerflow.models.failures import Translated
from deerflow.models.protocol import delta_sink

T = TypeVar("T")

LONGEST_OBEYED_WAIT = 30.0
"""Seconds. Who asks for more is not waited for: the next model or the error comes at once."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often, and after how long.

    Waits double from the base to the cap and are drawn from their upper half ("equal jitter", AWS
    Architecture Blog, "Exponential Backoff And Jitter"), so that runs that failed together do not
    return together.

    Attributes:
        attempts: per model, the first one included.
        base, cap: seconds.
        burst_base: first wait in seconds after "too many requests".
    """

    attempts: int = 3
    base: float = 1.0
    cap: float = 8.0
    burst_base: float = 5.0

    @classmethod
    def from_config(cls, config: LlmCallConfig) -> RetryPolicy:
        """The policy of the section `llm_call`."""
        return cls(
            attempts=config.retry_max_attempts,
            base=config.retry_base_delay_ms / 1000,
            cap=config.retry_cap_delay_ms / 1000,
            burst_base=config.burst_retry_base_delay_ms / 1000,
        )

    def wait(self, error: ModelError, attempt: int, rng: random.Random) -> float | None:
        """Seconds until the next attempt on the same model, None when it must not be tried again.

        Args:
            error: why the attempt failed.
            attempt: its number, from 1.
            rng: source of the jitter.
        """
        if not error.retryable or attempt >= self.attempts:
            return None
        asked = error.retry_after if isinstance(error, RateLimitError) else None
        if asked is not None:
            if asked > LONGEST_OBEYED_WAIT:
                return None
            return asked + rng.uniform(0, min(1.0, self.base))
        base = self.burst_base if isinstance(error, RateLimitError) else self.base
        longest = min(self.cap, base * 2 ** (attempt - 1))
        return rng.uniform(longest / 2, longest)


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds to a call's first delta and between two of them."""

    first_byte: float = 60.0
    idle: float = 60.0


async def limited(call: Callable[[], Awaitable[T]], limits: Limits, *, model: str) -> T:
    """Await a model call that reports its deltas to the sink of the context.

    The sink that was set before still hears every delta. Kinds other than "text" and "reasoning"
    (pieces of a tool call's arguments) are signs of life like any other.

    Raises:
        ModelTimeoutError: no first delta, or no further one, within the limit.
    """
    loop = asyncio.get_running_loop()
    outer = delta_sink.get()
    heard = 0
    # Moving a timer costs more than a delta does: move it at most four times per limit.
    step = limits.idle / 4
    moved = loop.time()
    timer = asyncio.timeout(limits.first_byte)

    def beat(kind: str, text: str) -> None:
        nonlocal heard, moved
        now = loop.time()
        if not heard or now - moved >= step:
            moved = now
            if not timer.expired():
                timer.reschedule(now + limits.idle + step)
        heard += 1
        if outer is not None:
            outer(kind, text)

    token = delta_sink.set(beat)
    try:
        async with timer:
            return await call()
    except TimeoutError as error:
        if not timer.expired():
            raise
        raise _timed_out(model, limits, heard) from error
    finally:
        delta_sink.reset(token)


def _timed_out(model: str, limits: Limits, heard: int) -> ModelTimeoutError:
    if heard:
        text = f"Model {model!r} stalled: nothing for {limits.idle:g} s in mid-answer."
        key = "idle_timeout_seconds"
    else:
        text = f"Model {model!r} sent nothing within {limits.first_byte:g} s."
        key = "first_byte_timeout_seconds"
    return ModelTimeoutError(text, model=model, cure=f"The limit is `llm_call.{key}`.")


class Slots:
    """Bounded calls at once in the process, 0 = unlimited.

    A single model may take three quarters of the slots, so that calls that hang on a dead model
    leave room for the others.
    """

    def __init__(self, limit: int, *, models: int = 1) -> None:
        self._all = asyncio.Semaphore(limit) if limit else None
        self._share = max(1, limit * 3 // 4) if models > 1 else limit
        self._own: dict[str, asyncio.Semaphore] = {}

    @asynccontextmanager
    async def of(self, model: str) -> AsyncGenerator[None]:
        """Hold a slot for one attempt."""
        if self._all is None:
            yield
            return
        own = self._own.setdefault(model, asyncio.Semaphore(self._share))
        async with own, self._all:
            yield


@dataclass(frozen=True, slots=True)
class Retry:
    """One failed attempt after which another follows; the payload of a `model_retry` event.

    Attributes:
        model, attempt: what failed; attempts count from 1 per model.
        code, message: of the error.
        wait_seconds: until the next attempt.
        next_model: the same model or the next one.
    """

    model: str
    attempt: int
    code: str
    message: str
    wait_seconds: float
    next_model: str


class Resilience:
    """Retries, breakers and slots of one process.

    Args:
        call: section `llm_call`.
        breaker: section `circuit_breaker`.
        models: how many models are configured (see Slots).
        clock: monotonic seconds, for the breakers.
        sleep: waits between attempts.
        rng: source of the jitter.
    """

    def __init__(
        self,
        call: LlmCallConfig,
        breaker: CircuitBreakerConfig,
        *,
        models: int = 1,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        self.policy = RetryPolicy.from_config(call)
        self.limits = Limits(call.first_byte_timeout_seconds, call.idle_timeout_seconds)
        self._own: dict[str, Limits] = {}
        self._breaker = breaker
        self._breakers: dict[str, Breaker] = {}
        self._slots = Slots(call.max_concurrent_calls, models=models)
        self._clock = clock
        self._sleep = sleep
        self._rng = rng or random.Random()  # noqa: S311  # jitter, nothing secret

    def allow(self, model: str, *, first_byte: float | None, idle: float | None) -> None:
        """Give a model limits of its own, in seconds; None keeps the general one."""
        self._own[model] = Limits(first_byte or self.limits.first_byte, idle or self.limits.idle)

    def limits_of(self, model: str) -> Limits:
        """The limits that hold for a model's calls."""
        return self._own.get(model, self.limits)

    def breaker(self, model: str) -> Breaker:
        """The breaker of a model, the same one for the whole process."""
        found = self._breakers.get(model)
        if found is None:
            found = self._breakers[model] = Breaker(
                model,
                threshold=self._breaker.failure_threshold,
                recovery=self._breaker.recovery_timeout_sec,
                clock=self._clock,
            )
        return found

    async def call(
        self,
        attempt: Callable[[str], Awaitable[T]],
        models: Sequence[str],
        *,
        on_retry: Callable[[Retry], None] = lambda _retry: None,
    ) -> T:
        """Call the first model that answers.

        Each attempt is a fresh call. An endpoint that is down or too busy is tried again and then
        left for the next model; a missing key or an unpaid account is left at once; a request that
        the provider refuses would be refused again and is raised at once.

        Args:
            attempt: makes one call of the model with that configured name.
            models: names in order, at least one.
            on_retry: told of each failed attempt that is followed by another.

        Raises:
            ModelError: the only model's error, or one error that names what each model said.
        """
        failed: list[ModelError] = []
        for name, following in zip(models, [*models[1:], None], strict=True):
            number = 1
            while True:
                try:
                    return await self._once(attempt, name)
                except ModelError as caught:
                    error = caught
                wait = self.policy.wait(error, number, self._rng)
                if wait is None or self.breaker(name).state != "closed":
                    break  # a paused model stays paused for longer than any wait
                on_retry(Retry(name, number, error.code, error.message, wait, name))
                await self._sleep(wait)
                number += 1
            failed.append(error)
            if not _others_may_help(error):
                break
            if following is not None:
                on_retry(Retry(name, number, error.code, error.message, 0.0, following))
        raise _summary(failed)

    async def _once(self, attempt: Callable[[str], Awaitable[T]], name: str) -> T:
        async with self._slots.of(name):
            with self.breaker(name).call(), Translated(name):
                return await limited(lambda: attempt(name), self.limits_of(name), model=name)


def _others_may_help(error: ModelError) -> bool:
    """Whether the trouble lies with the model's endpoint or account, not with the request."""
    return error.retryable or isinstance(error, (ModelAuthError, ModelPaymentError))


def _summary(errors: Sequence[ModelError]) -> ModelError:
    last = errors[-1]
    if len(errors) == 1 or not _others_may_help(last):
        return last
    said = " ".join(error.message for error in errors)
    return ModelUnavailableError(
        f"None of the {len(errors)} models could answer. {said}", model=last.model, cure=last.cure
    )
