"""Row 17: counts what was paid, by model and by caller: tokens, cached, reasoning, money."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage

from deerflow.agent.context import RunContext
from deerflow.agent.hooks import Middleware, ModelCall, ModelNext, ModelReply
from deerflow.agent.journal import LIMIT
from deerflow.errors import NotFoundError
from deerflow.middlewares.spending import account_of
from deerflow.models.protocol import Catalog, ModelSpec
from deerflow.models.usage import Tokens, UsageMeter

MODEL = "deerflow_model"
"""response_metadata of an AI message: configured name of the model that wrote it."""

CHILD_USAGE = "deerflow_usage"
"""additional_kwargs of a result: what a child used, as `usage_of` gives it."""


@dataclass(slots=True)
class Ledger:
    """Cursor of one run: its meter, and which messages and children are in it."""

    meter: UsageMeter = field(default_factory=UsageMeter)
    counted: set[str] = field(default_factory=set[str])
    children: set[str] = field(default_factory=set[str])
    seen: int = 0


class TokenUsageMiddleware(Middleware):
    """Every call that went to a provider is counted once, also one whose reply was thrown away.

    Args:
        catalog: names and prices.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    async def model(self, call: ModelCall, next_: ModelNext) -> ModelReply:
        """Call, count, and note in the reply which model wrote it.

        Raises:
            LimitError: the turn asks once more, and the budget of row 12 does not allow it.
        """
        ledger = _ledger(call.run)
        recount(call.run, call.state.get("messages", ()), self._catalog)
        spec, account = self._spec(call.model, call.run), account_of(call.run)
        if account is not None:
            account.readmit(call.run, spec)
        reply = await next_(call)
        message = reply.message
        if message is not None and LIMIT not in message.additional_kwargs:
            message.response_metadata[MODEL] = spec.name
            sent: Sequence[BaseMessage] = (
                [call.system, *call.messages] if call.system else call.messages
            )
            paid = _record(call.run, message, spec, sent)
            if account is not None:
                account.pay(call.run, paid)
            ledger.counted.add(message.id or "")
        return reply

    def _spec(self, model: BaseChatModel, run: RunContext) -> ModelSpec:
        try:
            return self._catalog.spec_of(model)
        except NotFoundError:  # handed in from outside, not out of the catalogue
            return _named(self._catalog, run.model_name)


def recount(run: RunContext, messages: Sequence[AnyMessage], catalog: Catalog) -> None:
    """Count the run's replies that a former process paid for, found in the history."""
    ledger = _ledger(run)
    first = ledger.seen == 0
    fresh = messages[ledger.seen :]  # after a compaction none: what is left was counted
    ledger.seen = len(messages)
    if not run.resumed:
        return
    nowhere = len(fresh) if first else 0
    start = next((i + 1 for i, m in enumerate(fresh) if m.id == run.input_id), nowhere)
    for message in fresh[start:]:
        if isinstance(message, ToolMessage) and CHILD_USAGE in message.additional_kwargs:
            add_child(run, message.tool_call_id, message.additional_kwargs[CHILD_USAGE])
        if not isinstance(message, AIMessage) or message.id in ledger.counted:
            continue
        name = message.response_metadata.get(MODEL)
        if name is not None:
            ledger.counted.add(message.id or "")
            _record(run, message, _named(catalog, str(name)))


def add_child(run: RunContext, task_id: str, used: Mapping[str, Any] | None) -> None:
    """Count a child once.

    Args:
        run: the lead's.
        task_id: the child's; nothing happens when it is known already.
        used: what `usage_of` gave a former process; None when the child ran in this process and
            was counted call by call.
    """
    ledger = _ledger(run.root)
    if task_id not in ledger.children:
        ledger.children.add(task_id)
        ledger.meter.merge(UsageMeter.from_dict(used or {}))


def _record(
    run: RunContext, message: AIMessage, spec: ModelSpec, sent: Sequence[BaseMessage] = ()
) -> Tokens:
    """Into the run's own meter and, for a child, once into the meters of those it works for.

    A retried item of a batch replays what an earlier attempt in this process has counted there.
    """
    tokens = _ledger(run).meter.record(message, spec, caller=run.caller, sent=sent)
    each = run.parent
    while each is not None:
        ledger = _ledger(each)
        if message.id not in ledger.counted:
            ledger.counted.add(message.id or uuid.uuid4().hex)
            ledger.meter.record(message, spec, caller=run.caller, sent=sent)
        each = each.parent
    return tokens


def _ledger(run: RunContext) -> Ledger:
    ledger = run.scratch.get(TokenUsageMiddleware)
    if ledger is None:
        ledger = run.scratch[TokenUsageMiddleware] = Ledger()
    return ledger


def _named(catalog: Catalog, name: str) -> ModelSpec:
    try:
        return catalog.spec(name)
    except NotFoundError:  # no longer configured: counted without a price
        return ModelSpec(name=name, provider="", model=name)


def usage_of(run: RunContext) -> dict[str, Any]:
    """What a run used: `total`, `by_model`, `by_caller`, `entries`; {} before the first call."""
    ledger = run.scratch.get(TokenUsageMiddleware)
    return ledger.meter.to_dict() if ledger is not None else {}


def meter_of(run: RunContext) -> UsageMeter:
    """The meter of a run, made when there is none: summaries add to it, and children have."""
    return _ledger(run).meter
