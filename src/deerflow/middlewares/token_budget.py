"""Row 12: what a run, its user's day and a child may use; ends with the best result so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from deerflow.agent.context import RunContext
from deerflow.agent.deliverables import REMINDER
from deerflow.agent.hooks import Middleware, ModelCall, ModelNext, ModelReply
from deerflow.agent.journal import LIMIT, REPLAYED, request_digest
from deerflow.agent.record import visible_text
from deerflow.agent.reply_edge import with_note
from deerflow.config.schema import SubagentTokenBudgetConfig, TokenBudgetConfig
from deerflow.errors import LimitError, ModelError, NotFoundError
from deerflow.middlewares.clarification import open_questions
from deerflow.middlewares.delimiters import REMINDER_TAG, block
from deerflow.middlewares.limits import Limit, child_limits, limits_of
from deerflow.middlewares.request_size import sizes_of
from deerflow.middlewares.spending import OUTPUT, Account, Amount, Hold, Pace, open_account
from deerflow.models.protocol import Catalog, ModelSpec
from deerflow.models.usage import estimate_text
from deerflow.storage.protocol import ModelKey

WARNING = "Most of the token budget is used up: finish now, with what you have and in few words."
"""Says no number: a request that is built again after a kill must read the same."""
CLOSING = (
    "The token budget is used up and this is your last message: no tool can be called any more. "
    "Give the best result that you have now, and say what is missing."
)


@dataclass(frozen=True, slots=True)
class Chance:
    """What the limits still allow: 2 = a turn, 1 = a closing answer, 0 = nothing.

    Attributes:
        grade: now.
        later: when the reservations of others are given back.
        limit: the one that allows least, None when nothing is in the way.
        need: what a closing answer needs of it.
    """

    grade: int
    later: int
    limit: Limit | None
    need: float


class TokenBudgetMiddleware(Middleware):
    """Reserves before each call, warns, and closes while there is room for an answer.

    A turn may begin when it and a closing answer after it fit into every limit. When only the
    closing answer fits, the model is asked once more, without tools, for the best result it has;
    when not even that fits, the run ends at once with the last text that it wrote. Reservations of
    calls under way count, so siblings cannot overshoot together: who finds no room waits for
    theirs to be given back. One answer that is longer than what was reserved for it (`max_tokens`
    of the model) can pass a limit by the difference.

    Args:
        config: section `token_budget`.
        child: section `subagents.token_budget`.
        catalog: longest answers and prices of the models.
    """

    def __init__(
        self, config: TokenBudgetConfig, child: SubagentTokenBudgetConfig, catalog: Catalog
    ) -> None:
        self._config = config
        self._child = child
        self._catalog = catalog
        self._limited = bool(limits_of(config) or child_limits(child))
        self._schemas: dict[int, tuple[Any, int]] = {}

    async def model(self, call: ModelCall, next_: ModelNext) -> ModelReply:
        """Reserve, call, settle; or end the run."""
        if not self._limited or open_questions(call.state.get("messages", ())):
            return await next_(call)
        account = open_account(call.run, self._config, self._child)
        if account is None:
            return await next_(call)
        await account.ready(call.run)
        if call.run.resumed and TokenBudgetMiddleware not in call.run.scratch:
            for sent, closing in _variants(call):
                if await _is_recorded(sent):
                    return await self._replay(sent, next_, account, closing=closing)
            call.run.scratch[TokenBudgetMiddleware] = True  # from here on nothing is recorded
        return await self._ask(call, next_, account)

    async def _ask(self, call: ModelCall, next_: ModelNext, account: Account) -> ModelReply:
        run, spec = call.run, self._spec(call)
        self._name_unpriced(account, run, spec)
        guessed = self._estimate(call)
        taken = account.paces.setdefault(run.agent, Pace()).expected(guessed)
        chance = _weigh(account, run, taken, spec)
        while chance.later > chance.grade:
            await account.released()
            chance = _weigh(account, run, taken, spec)
        near = _warn(account, run)
        limit = chance.limit
        if limit is not None and chance.grade == 0:
            return _stopped(call, limit, account.error(limit, run, chance.need))
        closing = limit is not None and chance.grade == 1
        sent = _closing(call) if closing else (_warned(call) if near else call)
        need = _reservation(account, run, taken, spec)
        try:
            with account.holding(run, Hold(need, guessed)):
                reply = await next_(sent)
        except LimitError as error:  # asking again did not fit
            return _stopped(call, limit, error)
        except ModelError as error:
            if limit is None or not closing:
                raise
            run.emit("notice", {"message": f"The closing answer failed. {error.message}"})
            return _stopped(call, limit, account.error(limit, run, chance.need))
        _warn(account, run)
        if reply.message is not None and account.before is not None:
            account.before.messages.add(reply.message.id or "")
        return _closed(call, reply, account, limit) if closing and limit is not None else reply

    async def _replay(
        self, sent: ModelCall, next_: ModelNext, account: Account, *, closing: bool
    ) -> ModelReply:
        """A reply that was paid before the kill; count it when the log did not have it yet."""
        run = sent.run
        reply = await next_(sent)
        account.paces.setdefault(run.agent, Pace())
        message, before = reply.message, account.before
        if (
            message is not None
            and message.additional_kwargs.get(REPLAYED)
            and message.usage_metadata
        ):
            usage = message.usage_metadata
            account.paces[run.agent].input = usage["input_tokens"]
            if before is None or message.id not in before.messages:
                paid = Amount(usage["input_tokens"], usage["output_tokens"])
                account.count(run.agent, paid)
        if not closing:
            return reply
        spec = self._spec(sent)
        tightest = _weigh(account, run, self._estimate(sent), spec).limit or next(account.of(run))
        return _closed(sent, reply, account, tightest)

    def _spec(self, call: ModelCall) -> ModelSpec:
        try:
            return self._catalog.spec_of(call.model)
        except NotFoundError:  # handed in from outside, not out of the catalogue
            name = call.run.model_name
            return ModelSpec(name=name, provider="", model=name)

    def _estimate(self, call: ModelCall) -> int:
        """Input tokens of a request: system text, messages and the schemas of its tools."""
        sizes = sizes_of(call.run)
        said = sizes.of_system(call.system) + sizes.of(call.messages)
        return said + sum(map(self._schema, call.tools))

    def _schema(self, tool: BaseTool | dict[str, Any]) -> int:
        known = self._schemas.get(id(tool))
        if known is None or known[0] is not tool:
            text = orjson.dumps(convert_to_openai_tool(tool), default=str).decode()
            known = self._schemas[id(tool)] = (tool, estimate_text(text))
        return known[1]

    def _name_unpriced(self, account: Account, run: RunContext, spec: ModelSpec) -> None:
        """Say once that a model's calls count nothing towards the money of the day."""
        limit = next((each for each in account.limits if each.unit == "money"), None)
        if limit is None or spec.name in account.unpriced:
            return
        account.unpriced.add(spec.name)
        if spec.pricing is None or limit.currency not in ("", spec.pricing.currency):
            wanted = f" in {limit.currency}" if limit.currency else ""
            run.root.emit(
                "notice",
                {
                    "message": f"Calls of model {spec.name!r} count nothing towards {limit.rule}: "
                    f"it has no price{wanted} (models[].pricing)."
                },
            )


def _weigh(account: Account, run: RunContext, taken: float, spec: ModelSpec) -> Chance:
    """Compare what is left of each limit with what a turn and a closing answer need."""
    one, two = account.room(taken, spec), account.room(taken, spec, 2)
    found = Chance(2, 2, None, 0.0)
    for limit in account.of(run):
        left, unit = account.left(limit, run), limit.unit
        needs = (one.of(unit), two.of(unit))
        grade = _grade(left, *needs)
        later = _grade(left + account.reserved(limit, run.agent), *needs)
        if grade < found.grade:
            found = Chance(grade, min(later, found.later), limit, needs[0])
        else:
            found = Chance(found.grade, min(later, found.later), found.limit, found.need)
    return found


def _grade(left: float, one: float, two: float) -> int:
    if left <= 0:
        return 0
    return (left >= one) + (left >= two)


def _reservation(account: Account, run: RunContext, taken: float, spec: ModelSpec) -> Amount:
    """The input, and the longest answer as far as the limits leave room for it."""
    given = max(float(spec.max_output or OUTPUT), account.answer)
    for limit in account.of(run):
        if limit.unit in ("tokens", "output"):
            left = account.left(limit, run) - (taken if limit.unit == "tokens" else 0)
            given = min(given, max(left, account.answer))
    return Amount(taken, given, account.price(taken, given, spec))


def _warn(account: Account, run: RunContext) -> bool:
    """Tell of limits that are nearly used up, once each; whether one of this agent is."""
    near = False
    for limit in account.of(run):
        used = account.spent(limit, run.agent)
        if used < limit.warn:
            continue
        near = True
        teller = run if limit.scope == "child" else run.root
        key = (run.agent if limit.scope == "child" else "", limit.rule)
        if key in account.warned:
            continue
        account.warned.add(key)
        teller.emit(
            "guard",
            {
                "rule": limit.rule,
                "used": limit.number(used),
                "limit": limit.number(limit.ceiling),
                "action": "warned",
                "message": limit.text(used) + ".",
            },
        )
    return near


def _note(call: ModelCall, text: str) -> list[AnyMessage]:
    note = HumanMessage(block(REMINDER_TAG, text), additional_kwargs={REMINDER: True})
    return [*call.messages, note]


def _warned(call: ModelCall) -> ModelCall:
    return call.with_(messages=_note(call, WARNING))


def _closing(call: ModelCall) -> ModelCall:
    return call.with_(messages=_note(call, CLOSING), tools=[])


def _variants(call: ModelCall) -> tuple[tuple[ModelCall, bool], ...]:
    """The forms in which this request may have been sent; True for the closing one."""
    return (call, False), (_warned(call), False), (_closing(call), True)


async def _is_recorded(call: ModelCall) -> bool:
    run = call.run
    key = ModelKey(run.thread_key, run.run_id, run.namespace, call.turn, request_digest(call))
    return await run.storage.journal.model_lookup(key) is not None


def _stopped(call: ModelCall, limit: Limit | None, error: LimitError) -> ModelReply:
    """The end without a further call: what there is, and why."""
    run = call.run
    detail = {"rule": error.rule, "used": error.used, "limit": error.limit}
    text = f"Stopped: {error.message}."
    run.emit("guard", {**detail, "action": "stopped", "message": text})
    mark = {LIMIT: detail}
    if run.parent is not None:  # the runner of children puts it together with what the child had
        ident = f"limit-{run.run_id}-{run.agent}-{run.turn}"
        message = AIMessage(content=text, id=ident, additional_kwargs=mark)
        return ModelReply(message, jump="end")
    partial = _partial(call.state.get("messages", ()), run.input_id)
    message = AIMessage(content=partial, id=f"limit-{run.run_id}-{run.turn}")  # also after a kill
    return ModelReply(with_note(message, f"[{text}]", **mark), jump="end")


def _closed(call: ModelCall, reply: ModelReply, account: Account, limit: Limit) -> ModelReply:
    """The closing answer with its mark; calls that it makes all the same are not run."""
    run, message = call.run, reply.message
    if message is None or LIMIT in message.additional_kwargs:
        return reply
    told = run.logged.get(message.id or "", {}).get("additional_kwargs", {}).get(LIMIT)
    if told is not None:
        limit = next((each for each in account.of(run) if each.rule == told["rule"]), limit)
    used = limit.number(account.spent(limit, run.agent))
    detail = told or {"rule": limit.rule, "used": used, "limit": limit.number(limit.ceiling)}
    text = f"Stopped: {limit.text(float(detail['used']))}. This is the best result so far."
    if told is None:
        run.emit("guard", {**detail, "action": "stopped", "message": text})
    if not visible_text(message):
        partial = _partial(call.state.get("messages", ()), run.input_id)
        message = message.model_copy(update={"content": partial})
    reply.message = with_note(message, f"[{text}]", **{LIMIT: detail})
    reply.jump = "end"
    return reply


def _partial(messages: Sequence[AnyMessage], input_id: str) -> str:
    """The last text that the run showed, "" when there is none."""
    for message in reversed(messages):
        if message.id == input_id:
            break
        if isinstance(message, AIMessage) and visible_text(message):
            return visible_text(message)
    return ""
