"""The one thread of llama.cpp: order, holds, and turns that nobody waits for any more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from deerflow.errors import ContextOverflowError, ModelRequestError
from deerflow.models.engine import Completion, Engine, ModelKey, Session, physical_cores
from deerflow.models.gguf import bundled
from fakes.llama import embedded_home


def quiet(_kind: str, _text: str) -> None:
    """Nobody listens."""


@pytest.fixture(scope="module")
def path() -> Path:
    return bundled(embedded_home())


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine()
    yield engine
    engine.close()


def key(path: Path, n_ctx: int = 512) -> ModelKey:
    return ModelKey(path, n_ctx, 1)


async def test_turns_run_one_after_another_in_order_of_arrival(engine: Engine, path: Path) -> None:
    order: list[int] = []
    threads: set[int] = set()

    def work(number: int) -> int:
        order.append(number)
        threads.add(threading.get_ident())
        return number

    async def turn(number: int) -> int:
        return await engine.turn(key(path), lambda _session: work(number), quiet)

    assert await asyncio.gather(*(turn(number) for number in range(8))) == list(range(8))
    assert order == list(range(8))
    assert len(threads) == 1
    assert threads != {threading.get_ident()}


async def test_a_turn_that_waits_can_be_cancelled(engine: Engine, path: Path) -> None:
    gate, entered = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    ran: list[str] = []

    def first(_session: Session) -> None:
        loop.call_soon_threadsafe(entered.set)
        gate.wait(60)

    one = asyncio.create_task(engine.turn(key(path), first, quiet))
    await entered.wait()
    two = asyncio.create_task(engine.turn(key(path), lambda _session: ran.append("two"), quiet))
    await asyncio.sleep(0)
    two.cancel()
    with pytest.raises(asyncio.CancelledError):
        await two
    gate.set()
    await one
    await engine.turn(key(path), lambda _session: ran.append("three"), quiet)
    assert ran == ["three"]


async def test_an_error_of_the_work_reaches_the_caller(engine: Engine, path: Path) -> None:
    def work(_session: Session) -> None:
        raise ModelRequestError("not like this")

    with pytest.raises(ModelRequestError, match="not like this"):
        await engine.turn(key(path), work, quiet)


async def test_llama_refuses_with_our_errors(engine: Engine, path: Path) -> None:
    def too_long(session: Session) -> Completion:
        message = {"role": "user", "content": "word " * 2_000}
        return session.chat([message], max_tokens=4, kind="text")

    def bad_grammar(session: Session) -> Completion:
        message = {"role": "user", "content": "hi"}
        return session.chat([message], max_tokens=4, kind="text", grammar="no rules")

    with pytest.raises(ContextOverflowError, match="window"):
        await engine.turn(key(path), too_long, quiet)
    with pytest.raises(ModelRequestError):
        await engine.turn(key(path), bad_grammar, quiet)


async def test_the_last_release_unloads(engine: Engine, path: Path) -> None:
    engine.hold(key(path))
    engine.hold(key(path))
    await engine.turn(key(path), lambda _session: None, quiet)
    engine.release(key(path))
    await engine.turn(key(path), lambda _session: None, quiet)
    assert engine.loads == 1
    assert engine.has(key(path))
    engine.release(key(path))
    await engine.turn(key(path), lambda _session: None, quiet)
    assert engine.loads == 2


async def test_another_model_takes_the_place_of_the_first(engine: Engine, path: Path) -> None:
    engine.hold(key(path))
    engine.hold(key(path, 640))
    await engine.turn(key(path), lambda _session: None, quiet)
    await engine.turn(key(path, 640), lambda _session: None, quiet)
    assert not engine.has(key(path))
    assert engine.has(key(path, 640))


def test_threads_are_at_least_one() -> None:
    assert physical_cores() >= 1


def test_a_release_in_the_middle_of_a_submit_waits_for_nothing() -> None:
    """The garbage collector may run a finalizer while this very thread holds the lock."""
    engine = Engine()
    with engine._lock:
        engine.release(key(Path("nowhere.gguf")))
    engine.close()
