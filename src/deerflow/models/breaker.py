"""Circuit breaker of a model: after several failures in a row it is left alone for a while."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Literal

from deerflow.errors import ModelError, ModelTimeoutError, ModelUnavailableError

BURST = 0.5
"""Seconds: calls that begin so soon after a counted failure met the same trouble, not a further
one; else thirty runs side by side would end at a hiccup before one of them could try again."""

BreakerState = Literal["closed", "open", "half_open"]


class Breaker:
    """Opens after `threshold` failures in a row; after `recovery` seconds one call may try again.

    Failures of calls that ran side by side count once (see BURST), but each that waited in vain.

    Only an endpoint that is down counts (ModelUnavailableError, ModelTimeoutError). A refusal of
    any kind proves that it lives, so a corrected key or a paid bill works at once.

    Args:
        name: configured name of the model.
        threshold: failures in a row that open it.
        recovery: seconds until the trial call.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        name: str,
        *,
        threshold: int,
        recovery: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._threshold = threshold
        self._recovery = recovery
        self._clock = clock
        self._failures = 0
        self._counted_at = -math.inf
        self._opened_at: float | None = None
        self._trying = False

    @property
    def state(self) -> BreakerState:
        """Closed (all calls), open (none), or half_open (one trial call)."""
        if self._opened_at is None:
            return "closed"
        return "open" if self._pause() > 0 else "half_open"

    @contextmanager
    def call(self) -> Generator[None]:
        """Around one attempt; its outcome moves the state, a cancelled one moves nothing.

        Raises:
            ModelUnavailableError: the model is paused, or its trial call is under way.
        """
        trial = self._admit()
        begun = self._clock()
        try:
            yield
        except ModelError as error:
            down = isinstance(error, (ModelUnavailableError, ModelTimeoutError))
            alone = trial or begun - self._counted_at >= BURST
            self._note(failed=down, fresh=alone or isinstance(error, ModelTimeoutError))
            raise
        else:
            self._note(failed=False, fresh=True)
        finally:
            if trial:
                self._trying = False

    def _admit(self) -> bool:
        if self.state == "closed":
            return False
        if self.state == "half_open" and not self._trying:
            self._trying = True
            return True
        left = math.ceil(max(self._pause(), 1))
        raise ModelUnavailableError(
            f"Model {self._name!r} is paused after {self._failures} failures in a row; it is tried "
            f"again in {left} s.",
            model=self._name,
            cure="Wait, choose another model, or configure one to fall over to.",
        )

    def _pause(self) -> float:
        return (self._opened_at or 0.0) + self._recovery - self._clock()

    def _note(self, *, failed: bool, fresh: bool) -> None:
        if not failed:
            self._failures = 0
            self._counted_at = -math.inf
            self._opened_at = None
            return
        if not fresh:
            return
        self._failures += 1
        self._counted_at = self._clock()
        # Calls that were under way when it opened must not prolong the pause; a failed trial does.
        if self._failures >= self._threshold and self.state != "open":
            self._opened_at = self._clock()
