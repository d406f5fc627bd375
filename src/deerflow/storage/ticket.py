"""The receipt of a queued write: awaitable any number of times, from any loop, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from threading import Lock
from typing import Generic, TypeVar

from deerflow.errors import DeerFlowError

T = TypeVar("T")


class Ticket(Generic[T]):
    """A write that was queued in order; awaiting it gives the committed result.

    A ticket that nobody awaits is not an error and warns about nothing: a failure is then kept by
        the queue and
    raised by the next checkpoint of the thread, or by `flush`.

    Attributes:
        scope: thread key that the write belongs to, "" when it belongs to none.
        guarded: whether it must fail when an earlier unawaited write of the scope has failed.
        done: whether value or error is final.
        value: the result, valid when done and error is None.
        error: why it failed.
    """

    __slots__ = (
        "_lock",
        "_on_read",
        "_on_wait",
        "_value",
        "_waiters",
        "done",
        "error",
        "guarded",
        "scope",
    )

    def __init__(
        self,
        scope: str,
        lock: Lock,
        *,
        guarded: bool = False,
        on_wait: Callable[[], None] | None = None,
        on_read: Callable[[DeerFlowError], None] | None = None,
    ) -> None:
        self.scope = scope
        self.guarded = guarded
        self.done = False
        self.error: DeerFlowError | None = None
        self._value: T | None = None
        self._lock = lock
        self._on_wait = on_wait
        self._on_read = on_read
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    @property
    def awaited(self) -> bool:
        """Whether somebody waits for it now."""
        return bool(self._waiters)

    def settle(
        self, value: T | None, error: DeerFlowError | None
    ) -> list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]]:
        """Make it final (the lock is held) and hand over who must be woken."""
        self.done, self._value, self.error = True, value, error
        waiters, self._waiters = self._waiters, []
        return waiters

    def _wait(self) -> Generator[asyncio.Future[None], None, None]:
        if self.done:
            return
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        with self._lock:
            if self.done:
                return
            self._waiters.append((loop, future))
        if self._on_wait is not None:
            self._on_wait()
        yield from future

    def __await__(self) -> Generator[asyncio.Future[None], None, T]:
        yield from self._wait()
        if self.error is not None:
            if self._on_read is not None:
                self._on_read(self.error)
            raise self.error
        return self._value  # pyright: ignore[reportReturnType]

    def settled(self) -> Settled:
        """Awaitable that returns when the ticket is final, whatever came out."""
        return Settled(self._wait)


class Settled:
    """Waits for a ticket without reading its outcome."""

    __slots__ = ("_wait",)

    def __init__(self, wait: Callable[[], Generator[asyncio.Future[None], None, None]]) -> None:
        self._wait = wait

    def __await__(self) -> Generator[asyncio.Future[None], None, None]:
        return self._wait()


def settled_ticket(value: T) -> Ticket[T]:
    """A ticket that is final from the start."""
    ticket: Ticket[T] = Ticket("", Lock())
    ticket.settle(value, None)
    return ticket


def failed_ticket(error: DeerFlowError) -> Ticket[None]:
    """A ticket that has failed already; it raises when it is awaited."""
    ticket: Ticket[None] = Ticket("", Lock())
    ticket.settle(None, error)
    return ticket
