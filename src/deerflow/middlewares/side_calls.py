"""Model calls beside the turns of an agent, counted and limited like them.

`side_call` is for calls of a run (summary, title, the judge of a goal), `user_call` for calls that
belong to a user and to no run (extraction of memories).
"""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.constants import TAG_NOSTREAM

from deerflow.agent.context import RunContext
from deerflow.config.schema import TokenBudgetConfig
from deerflow.errors import NotFoundError
from deerflow.middlewares.limits import limits_of
from deerflow.middlewares.paid_before import paid_before
from deerflow.middlewares.spending import OUTPUT, Account, Amount, Day, Hold, account_of
from deerflow.middlewares.token_usage import meter_of
from deerflow.models.protocol import Catalog, ModelSpec
from deerflow.models.usage import Tokens, UsageMeter, estimate
from deerflow.storage.protocol import Storage


async def side_call(
    run: RunContext,
    spec: ModelSpec,
    model: BaseChatModel,
    messages: Sequence[BaseMessage],
    *,
    caller: str,
) -> AIMessage:
    """Ask a model for something that is no turn of the agent.

    The call is in the usage of the run under its caller, in the log as a `usage` event, and within
    the limits of row 12. It has no retries: callers have something to fall back on.

    Args:
        run: of lead or child.
        spec: name and price of the model, see `spec_for`.
        model: what is asked.
        messages: the request.
        caller: "summary", "title", "goal" …; by it the usage is listed.

    Raises:
        LimitError: no limit has room for it.
        ModelError: the call failed.
    """
    account = account_of(run)
    if account is None:
        reply = await _asked(model, messages)
        _record(run, reply, spec, messages, caller)
        return reply
    await account.ready(run)
    taken = float(estimate(messages))
    need = account.room(taken, spec)
    for limit in account.of(run):
        if account.left(limit, run) < need.of(limit.unit):
            raise account.error(limit, run, need.of(limit.unit))
    given = float(spec.max_output or OUTPUT)
    held = Amount(taken, given, account.price(taken, given, spec))
    with account.holding(run, Hold(held), caller):
        reply = await _asked(model, messages)
        account.pay(run, _record(run, reply, spec, messages, caller), caller=caller)
    return reply


async def user_call(
    storage: Storage,
    config: TokenBudgetConfig,
    user_id: str,
    spec: ModelSpec,
    model: BaseChatModel,
    messages: Sequence[BaseMessage],
) -> AIMessage:
    """Ask a model on a user's account, outside of any run.

    Args:
        storage: where the day's sum is.
        config: section `token_budget`.
        user_id: who pays.
        spec: of the model, for its price.
        model: what is asked.
        messages: the request.

    Raises:
        LimitError: the user's day has no room for it.
        ModelError: the call failed.
    """
    limits = tuple(limit for limit in limits_of(config) if limit.scope == "day")
    if not limits:
        return await _asked(model, messages)
    day = Day(storage, user_id)
    account = Account(limits, (), day)
    await day.refresh(at_once=True)
    need = account.room(float(estimate(messages)), spec)
    for limit in limits:
        used = account.spent(limit)
        if limit.ceiling - used < need.of(limit.unit):
            raise limit.error(used, need.of(limit.unit))
    reply = await _asked(model, messages)
    charge_user(storage, config, user_id, UsageMeter().record(reply, spec, sent=messages))
    return reply


def charge_user(storage: Storage, config: TokenBudgetConfig, user_id: str, tokens: Tokens) -> None:
    """Enter a call that was paid into the user's day; nothing when no limit asks for it."""
    if any(limit.scope == "day" for limit in limits_of(config)):
        Day(storage, user_id).add(Amount(tokens.input, tokens.output), tokens.cost)


async def recount_side_calls(run: RunContext) -> None:
    """Enter into the usage of a resumed run what earlier processes paid beside its turns."""
    for payload in (await paid_before(run)).beside:
        key = (str(payload["model"]), str(payload["caller"]))
        meter_of(run).entries.setdefault(key, Tokens()).add(Tokens.from_dict(payload["usage"]))


async def _asked(model: BaseChatModel, messages: Sequence[BaseMessage]) -> AIMessage:
    """One call that no reader of the run's messages sees streaming."""
    return await model.ainvoke(list(messages), config={"tags": [TAG_NOSTREAM]})


def _record(
    run: RunContext, reply: AIMessage, spec: ModelSpec, sent: Sequence[BaseMessage], caller: str
) -> Tokens:
    """Count a call in the run's usage and tell it."""
    tokens = meter_of(run.root).record(reply, spec, caller=caller, sent=sent)
    run.emit("usage", {"caller": caller, "model": spec.name, "usage": tokens.to_dict()})
    return tokens


def spec_for(catalog: Catalog | None, model: BaseChatModel, name: str) -> ModelSpec:
    """Facts of a model; only the name for one that is not out of the catalogue."""
    try:
        if catalog is not None:
            return catalog.spec_of(model)
    except NotFoundError:
        return ModelSpec(name=name, provider="", model=name)
    return ModelSpec(name=name, provider="", model=name)
