"""What a run may still use: limits, reservations and what was paid, shared by lead and children."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from deerflow.agent.context import RunContext
from deerflow.config.schema import SubagentTokenBudgetConfig, TokenBudgetConfig
from deerflow.errors import LimitError
from deerflow.middlewares.limits import Limit, Unit, child_limits, limits_of
from deerflow.middlewares.paid_before import PaidBefore, paid_before
from deerflow.models.protocol import ModelSpec
from deerflow.models.usage import Tokens, price
from deerflow.storage.protocol import Spent, Storage

OUTPUT = 4_096
"""Output tokens that are reserved for a call of a model whose `max_tokens` is not configured."""
ANSWER = 1_024
"""Output tokens that a closing answer needs; at most a tenth of the smallest limit."""
SECONDS_OF_DAY = 86_400
REFRESH_SECONDS = 5.0
"""How old the day's sum may be: other processes spend too. Near a limit it is read every time."""


@dataclass(slots=True)
class Amount:
    """Tokens in and out, and money in the currency of the limits."""

    input: float = 0
    output: float = 0
    money: float = 0.0

    def of(self, unit: Unit) -> float:
        """The part that a limit of this unit counts."""
        if unit == "tokens":
            return self.input + self.output
        return float(getattr(self, unit))

    def add(self, other: Amount, sign: int = 1) -> None:
        """Add another amount, or take it away with sign -1."""
        self.input += sign * other.input
        self.output += sign * other.output
        self.money += sign * other.money


def today(now: Callable[[], float] = time.time) -> str:
    """The day in UTC, ISO 8601: what is spent is counted by it."""
    return _date(int(now() // SECONDS_OF_DAY))


@lru_cache(4)
def _date(day: int) -> str:
    return datetime.fromtimestamp(day * SECONDS_OF_DAY, UTC).date().isoformat()


@dataclass(slots=True)
class Day:
    """What the run's user used today, by all processes.

    `since` is what this run added after the sum was read last: the sum may not have it yet.
    `begun` is a reading that nobody has waited for: its day, its time and the sum to come.
    """

    storage: Storage
    user_id: str
    now: Callable[[], float] = time.time
    date: str = ""
    base: Spent = field(default_factory=Spent)
    read_at: float = 0.0
    since: Amount = field(default_factory=Amount)
    writes: list[Any] = field(default_factory=list[Any])
    begun: tuple[str, float, Awaitable[Spent]] | None = None
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    def used(self, unit: Unit, currency: str) -> float:
        """Tokens, or money in a currency ("" adds whatever there is)."""
        if unit == "money":
            known = self.base.money
            held = known.get(currency, 0.0) if currency else sum(known.values())
            return held + self.since.money
        return self.base.tokens + self.since.of("tokens")

    def add(self, amount: Amount, cost: dict[str, float]) -> None:
        """Write down what was paid, under the day on which it was."""
        date = today(self.now)
        if date == self.date:
            self.since.add(amount)
        tokens = int(amount.of("tokens"))
        self.writes.append(self.storage.spending.add(self.user_id, date, tokens, cost))

    def begin(self) -> None:
        """Read the sum along with what is written next, so that the first `refresh` need not."""
        date = today(self.now)
        self.begun = date, self.now(), self.storage.spending.of(self.user_id, date)

    async def refresh(self, *, at_once: bool = False) -> None:
        """Read the sum again when it is old, of another day, or `at_once`."""
        async with self._reading:
            await self._take_begun()
            date = today(self.now)
            if date == self.date and not at_once and self.now() - self.read_at < REFRESH_SECONDS:
                return
            if date != self.date:
                self.date, self.base, self.since = date, Spent(), Amount()
            known = replace(self.since)
            writes, self.writes = self.writes, []
            for write in writes:  # what others wrote meanwhile stays in `since`: rather too much
                await write
            self.base = await self.storage.spending.of(self.user_id, date)
            self.read_at = self.now()
            self.since.add(known, -1)

    async def _take_begun(self) -> None:
        """The sum that was read when the run was admitted; nothing was added since."""
        if self.begun is None:
            return
        (date, at, reading), self.begun = self.begun, None
        if not self.date and not self.writes:
            self.base = await reading
            self.date, self.read_at = date, at


@dataclass(slots=True)
class Pace:
    """How an agent's last call went: what we had estimated of its input, and what it was."""

    estimate: float = 0.0
    input: float = 0.0

    def expected(self, estimate: float) -> float:
        """Input of a request, corrected by how far the last estimate was off."""
        if not self.estimate:
            return estimate
        if estimate >= self.estimate:
            return self.input + estimate - self.estimate
        return estimate * self.input / self.estimate  # compacted meanwhile


@dataclass(slots=True)
class Hold:
    """A reservation: what the call may need, the estimate of its input, calls paid under it."""

    need: Amount
    estimate: float = 0.0
    paid: int = 0


@dataclass(slots=True)
class Account:
    """The books of one run, kept in the lead's scratch and shared by its children.

    Attributes:
        limits: of run and day.
        child: of each child.
        day: today's use, None when no limit asks for it.
        used: paid by this run.
        held: reserved by calls under way.
        by_child: the same two, for each child.
        holds: reservation by agent.
        paces: by agent.
        warned: (agent or "", rule) that was told of.
        unpriced: models that were named as free of charge.
        answer: output tokens kept for a closing answer.
        before: what earlier processes paid; `messages` grows with the replies of this one.
    """

    limits: tuple[Limit, ...]
    child: tuple[Limit, ...]
    day: Day | None
    used: Amount = field(default_factory=Amount)
    held: Amount = field(default_factory=Amount)
    by_child: dict[str, tuple[Amount, Amount]] = field(
        default_factory=dict[str, "tuple[Amount, Amount]"]
    )
    holds: dict[str, Hold] = field(default_factory=dict[str, Hold])
    paces: dict[str, Pace] = field(default_factory=dict[str, Pace])
    warned: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    unpriced: set[str] = field(default_factory=set[str])
    before: PaidBefore | None = None
    answer: float = field(init=False)
    _freed: asyncio.Event = field(default_factory=asyncio.Event)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        tokens = (each for each in (*self.limits, *self.child) if each.unit != "money")
        self.answer = min([ANSWER, *(each.ceiling / 10 for each in tokens)])

    async def ready(self, run: RunContext) -> None:
        """Read what a former process paid for this run, and the day's sum when it is old."""
        root = run.root
        if self.before is None:
            async with self._opening:
                if self.before is None:
                    self._take_over(await paid_before(root) if root.resumed else PaidBefore())
        if self.day is not None:
            close = any(
                limit.scope == "day" and self.spent(limit) >= limit.warn for limit in self.limits
            )
            await self.day.refresh(at_once=close)

    def _take_over(self, before: PaidBefore) -> None:
        self.before = before
        self.warned |= before.warned
        for agent, (taken, given) in before.tokens.items():
            self.count(agent, Amount(taken, given))

    # ---- limits ----

    def of(self, run: RunContext) -> Iterator[Limit]:
        """The limits that an agent is under."""
        yield from self.limits
        if run.parent is not None:
            yield from self.child

    def spent(self, limit: Limit, agent: str = "") -> float:
        """What was paid under a limit."""
        if limit.scope == "day":
            return self.day.used(limit.unit, limit.currency) if self.day is not None else 0.0
        if limit.scope == "child":
            return self._child(agent)[0].of(limit.unit)
        return self.used.of(limit.unit)

    def left(self, limit: Limit, run: RunContext) -> float:
        """What is neither paid nor reserved; a child leaves room for the lead's closing answer."""
        free = limit.ceiling - self.spent(limit, run.agent) - self.reserved(limit, run.agent)
        if limit.scope != "child" and run.parent is not None:
            lead = self.paces.get(run.root.agent)
            if lead is not None:
                free -= self.room(lead.input, None).of(limit.unit)
        return free

    def reserved(self, limit: Limit, agent: str) -> float:
        """What calls under way may still use."""
        held = self._child(agent)[1] if limit.scope == "child" else self.held
        return held.of(limit.unit)

    def room(self, taken: float, spec: ModelSpec | None, times: int = 1) -> Amount:
        """What `times` calls in a row need at least, each growing by an answer."""
        given = self.answer * times
        taken = taken * times + self.answer * (times - 1)
        return Amount(taken, given, self.price(taken, given, spec))

    def price(self, taken: float, given: float, spec: ModelSpec | None) -> float:
        """Money for tokens in the currency of the limits, 0 for a model without a price there."""
        pricing = spec.pricing if spec is not None else None
        if pricing is None or not self._counts(pricing.currency):
            return 0.0
        return price(Tokens(input=int(taken), output=int(given)), pricing)

    def _counts(self, currency: str) -> bool:
        wanted = next((each.currency for each in self.limits if each.unit == "money"), None)
        return wanted is not None and wanted in ("", currency)

    # ---- book-keeping ----

    @contextmanager
    def holding(self, run: RunContext, hold: Hold, caller: str = "") -> Generator[None]:
        """Reserve while a call is under way, in whatever way it ends; then wake who waits for it.

        Args:
            run: of lead or child.
            hold: what is reserved.
            caller: of a call beside the turns, "" for a turn of the agent.
        """
        if not caller:
            self.holds[run.agent] = hold
        self._move(run.agent, hold.need, 1)
        try:
            yield
        finally:
            if not caller:
                del self.holds[run.agent]
            self._move(run.agent, hold.need, -1)
            self._freed.set()
            self._freed = asyncio.Event()

    def readmit(self, run: RunContext, spec: ModelSpec) -> None:
        """Before an agent's turn asks the model again (an empty or cut answer).

        Raises:
            LimitError: the first answer left no room for another.
        """
        hold = self.holds.get(run.agent)
        if hold is None or not hold.paid:
            return
        need = self.room(self.paces[run.agent].input, spec)
        for limit in self.of(run):
            if self.left(limit, run) + hold.need.of(limit.unit) < need.of(limit.unit):
                raise self.error(limit, run, need.of(limit.unit))

    def error(self, limit: Limit, run: RunContext, need: float) -> LimitError:
        """The error that says what a limit has left and what was wanted."""
        return limit.error(self.spent(limit, run.agent), need)

    async def released(self) -> None:
        """Wait until some reservation was given back."""
        await self._freed.wait()

    def pay(self, run: RunContext, tokens: Tokens, *, caller: str = "") -> None:
        """Enter a call that was paid, once, by whoever made it.

        Args:
            run: of lead or child.
            tokens: as told or estimated, with their cost.
            caller: of a call beside the turns, "" for a turn of the agent.
        """
        money = sum(cost for currency, cost in tokens.cost.items() if self._counts(currency))
        amount = Amount(tokens.input, tokens.output, money)
        self.count(run.agent, amount)
        if self.day is not None:
            self.day.add(amount, tokens.cost)
        hold = self.holds.get(run.agent)
        if caller or hold is None:
            return
        hold.paid += 1
        if hold.paid == 1:
            self.paces[run.agent] = Pace(hold.estimate, tokens.input)

    def count(self, agent: str, amount: Amount) -> None:
        """Enter what was paid into the sums of run and child."""
        self.used.add(amount)
        self._child(agent)[0].add(amount)

    def _move(self, agent: str, amount: Amount, sign: int) -> None:
        self.held.add(amount, sign)
        self._child(agent)[1].add(amount, sign)

    def _child(self, agent: str) -> tuple[Amount, Amount]:
        return self.by_child.setdefault(agent, (Amount(), Amount()))


def account_of(run: RunContext) -> Account | None:
    """The books of a run, None when nothing limits it."""
    return run.root.scratch.get(Account)


def open_account(
    run: RunContext, config: TokenBudgetConfig, child: SubagentTokenBudgetConfig
) -> Account | None:
    """The books of a run, opened when there are none; None when nothing limits it."""
    found = account_of(run)
    if found is not None:
        return found
    limits, below = limits_of(config), child_limits(child)
    if limits or below:
        root = run.root
        daily = any(limit.scope == "day" for limit in limits)
        day = Day(root.storage, root.user_id) if daily else None
        if day is not None:
            day.begin()
        found = root.scratch[Account] = Account(limits, below, day)
    return found
