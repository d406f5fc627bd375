"""One thread that reads long outputs and what background processes print afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import selectors
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from deerflow.sandbox.capture import Capture

PIPE_BYTES: Final = 1 << 16
"""Capacity of a pipe (pipe(7)): no more can wait in it when a command's end is reported."""
_CHUNK: Final = 1 << 16


@dataclass(slots=True)
class _Order:
    """What the loop asks of the thread."""

    fd: int
    capture: Capture | None = None
    finish: Callable[[bool], None] | None = None
    drop: bool = False


@dataclass(slots=True)
class _Source:
    capture: Capture
    on_full: Callable[[], None] | None
    finished: bool = False


class Drain:
    """Reads pipes into captures off the event loop, so that a slow disk stalls no request.

    A pipe that was handed over stays here until it is finished and nobody holds its other end.
    """

    def __init__(self) -> None:
        self._orders: queue.SimpleQueue[_Order] = queue.SimpleQueue()
        self._full: dict[int, Callable[[], None]] = {}
        self._wake_read, self._wake = os.pipe()
        for end in (self._wake_read, self._wake):
            os.set_blocking(end, False)
        self._thread: threading.Thread | None = None

    def take(self, fd: int, capture: Capture, on_full: Callable[[], None] | None = None) -> None:
        """Hand a pipe over; `on_full` is called on the loop when the spill file is full."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="sandbox-drain", daemon=True)
            self._thread.start()
        if on_full is not None:
            loop = asyncio.get_running_loop()
            self._full[fd] = _on_loop(loop, on_full)
        self._order(_Order(fd, capture))

    async def finish(self, fd: int) -> None:
        """Read what is there now; later bytes go to the spill file alone."""
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def tell(_: bool) -> None:
            with contextlib.suppress(RuntimeError):  # the loop may be closed by now
                loop.call_soon_threadsafe(_settle, done)

        self._order(_Order(fd, finish=tell))
        await done

    async def close(self) -> None:
        """End the thread; open pipes are closed."""
        if self._thread is not None:
            self._order(_Order(-1, drop=True))
            await asyncio.to_thread(self._thread.join)
            self._thread = None
        os.close(self._wake)
        os.close(self._wake_read)

    def _order(self, order: _Order) -> None:
        self._orders.put(order)
        with contextlib.suppress(BlockingIOError):  # full: it is awake
            os.write(self._wake, b".")

    # in the thread

    def _work(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_read, selectors.EVENT_READ)
            sources: dict[int, _Source] = {}
            while True:
                for key, _ in selector.select():
                    if key.fd != self._wake_read:
                        self._read(key.fd, sources, selector)
                if not self._obey(sources, selector):
                    break
            for fd, source in sources.items():
                source.capture.spill.close()
                os.close(fd)

    def _obey(self, sources: dict[int, _Source], selector: selectors.BaseSelector) -> bool:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)
        while not self._orders.empty():
            order = self._orders.get()
            if order.drop:
                return False
            if order.capture is not None:
                sources[order.fd] = _Source(order.capture, self._full.pop(order.fd, None))
                selector.register(order.fd, selectors.EVENT_READ)
            if order.finish is not None:
                self._finish(order, sources, selector)
        return True

    def _finish(
        self, order: _Order, sources: dict[int, _Source], selector: selectors.BaseSelector
    ) -> None:
        source = sources.get(order.fd)
        until = source.capture.total + PIPE_BYTES if source is not None else 0
        while source is not None and source.capture.total < until:
            if not self._read(order.fd, sources, selector):
                break
        if source is not None:
            source.capture.finish()
            source.finished = True
        if order.finish is not None:
            order.finish(True)

    def _read(self, fd: int, sources: dict[int, _Source], selector: selectors.BaseSelector) -> bool:
        """One chunk; False when there is none now or ever."""
        source = sources[fd]
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            selector.unregister(fd)
            del sources[fd]
            source.capture.spill.close()
            os.close(fd)
            return False
        if source.finished:
            source.capture.feed_late(data)
        else:
            source.capture.feed(data)
        if source.capture.spill.full and source.on_full is not None:
            source.on_full()
            source.on_full = None
        return True


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _on_loop(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> Callable[[], None]:
    def later() -> None:
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(call)

    return later
