"""The breaker opens, pauses, tries again, and never confuses a refusal with a dead endpoint."""

import asyncio

import pytest

from deerflow.errors import (
    ModelAuthError,
    ModelError,
    ModelTimeoutError,
    ModelUnavailableError,
    RateLimitError,
)
from deerflow.models.breaker import BURST, Breaker


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker("m", threshold=3, recovery=60, clock=clock)


def fail(breaker: Breaker, error: ModelError) -> None:
    breaker._clock.now += BURST  # type: ignore[attr-defined]
    with pytest.raises(type(error)), breaker.call():
        raise error


def test_opens_after_failures_in_a_row_and_says_for_how_long(breaker: Breaker, clock: Clock):
    fail(breaker, ModelUnavailableError("down"))
    fail(breaker, ModelTimeoutError("slow"))
    assert breaker.state == "closed"
    fail(breaker, ModelUnavailableError("down"))
    assert breaker.state == "open"
    clock.now += 18
    with pytest.raises(ModelUnavailableError, match="'m' is paused after 3 failures.*in 42 s"):
        breaker.call().__enter__()


def test_a_success_between_failures_starts_the_count_anew(breaker: Breaker):
    for _ in range(3):
        fail(breaker, ModelUnavailableError("down"))
        fail(breaker, ModelUnavailableError("down"))
        with breaker.call():
            pass
    assert breaker.state == "closed"


@pytest.mark.parametrize("error", [ModelAuthError("key"), RateLimitError("busy")])
def test_refusals_do_not_open_it(breaker: Breaker, error: ModelError):
    for _ in range(10):
        fail(breaker, error)
    assert breaker.state == "closed"


def test_one_trial_after_the_pause_closes_or_reopens(breaker: Breaker, clock: Clock):
    for _ in range(3):
        fail(breaker, ModelUnavailableError("down"))
    clock.now += 61
    assert breaker.state == "half_open"
    with breaker.call():
        with pytest.raises(ModelUnavailableError, match="paused"):
            breaker.call().__enter__()
    assert breaker.state == "closed"
    for _ in range(3):
        fail(breaker, ModelUnavailableError("down"))
    clock.now += 61
    fail(breaker, ModelUnavailableError("still down"))
    assert breaker.state == "open"
    clock.now += 61
    with breaker.call():
        pass
    assert breaker.state == "closed"


def test_a_cancelled_trial_leaves_the_place_to_the_next(breaker: Breaker, clock: Clock):
    for _ in range(3):
        fail(breaker, ModelUnavailableError("down"))
    clock.now += 61
    with pytest.raises(asyncio.CancelledError), breaker.call():
        raise asyncio.CancelledError
    assert breaker.state == "half_open"
    with breaker.call():
        pass
    assert breaker.state == "closed"


def test_late_failures_do_not_prolong_the_pause(breaker: Breaker, clock: Clock):
    under_way = [breaker.call() for _ in range(5)]
    for call in under_way:
        call.__enter__()
    error = ModelTimeoutError("silent")
    for call in under_way[:3]:
        call.__exit__(ModelTimeoutError, error, None)
    clock.now += 50
    for call in under_way[3:]:
        call.__exit__(ModelTimeoutError, error, None)
    clock.now += 11
    assert breaker.state == "half_open"


def test_p20_failures_side_by_side_count_once_until_a_call_tries_later(breaker: Breaker):
    calls = [breaker.call() for _ in range(30)]
    for call in calls:
        call.__enter__()
    for call in calls:
        error = ModelUnavailableError("hiccup")
        assert not call.__exit__(type(error), error, None)
    assert breaker.state == "closed"
    fail(breaker, ModelUnavailableError("down"))
    fail(breaker, ModelUnavailableError("down"))
    assert breaker.state == "open"


def test_p20_every_call_that_waited_in_vain_counts(breaker: Breaker):
    for _ in range(3):
        with pytest.raises(ModelTimeoutError), breaker.call():
            raise ModelTimeoutError("silent")
    assert breaker.state == "open"
