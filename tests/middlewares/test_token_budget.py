"""Row 12: budgets of runs, days and children: warned, closed, stopped, shared, resumed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.messages.ai import UsageMetadata

from deerflow.agent.context import RunContext
from deerflow.agent.hooks import ModelCall, ModelReply
from deerflow.agent.journal import LIMIT, REPLAYED, Codec, request_digest
from deerflow.config.schema import SubagentTokenBudgetConfig, TokenBudgetConfig
from deerflow.errors import ModelUnavailableError
from deerflow.middlewares.spending import Account, account_of, today
from deerflow.middlewares.token_budget import CLOSING, WARNING, TokenBudgetMiddleware
from deerflow.middlewares.token_usage import TokenUsageMiddleware
from deerflow.models.protocol import ModelSpec, Pricing
from deerflow.storage.protocol import ModelKey
from fakes.catalogs import ScriptedCatalog
from fakes.rows import calls, events, result, run_context, user

OFF = SubagentTokenBudgetConfig()


class Priced(ScriptedCatalog):
    """One model with a price."""

    pricing: Pricing | None = Pricing("EUR", 1.0, 2.0, 0.5)

    def spec(self, name: str) -> ModelSpec:
        return ModelSpec(name=name, provider="scripted", model=name, pricing=self.pricing)


class Turns:
    """Rows 12 and 17 around a model that says what the test gives, turn by turn."""

    def __init__(
        self,
        *script: Any,
        run: RunContext | None = None,
        catalog: type[ScriptedCatalog] = ScriptedCatalog,
        child: SubagentTokenBudgetConfig = OFF,
        **config: Any,
    ) -> None:
        self.catalog = catalog(main=list(script))
        self.model = self.catalog.models["main"]
        self.run = run or run_context()
        self.row = TokenBudgetMiddleware(TokenBudgetConfig(**config), child, self.catalog)
        self.inner = TokenUsageMiddleware(self.catalog)
        self.messages: list[Any] = [user("go", id=self.run.input_id)]

    @property
    def account(self) -> Account:
        account = account_of(self.run)
        assert account is not None
        return account

    async def turn(self, run: RunContext | None = None) -> ModelReply:
        run = run or self.run

        async def terminal(call: ModelCall) -> ModelReply:
            bound = call.model.bind_tools(list(call.tools)) if call.tools else call.model
            reply = await bound.ainvoke(call.messages)
            return ModelReply(reply)

        async def counted(call: ModelCall) -> ModelReply:
            return await self.inner.model(call, terminal)

        state = {"messages": self.messages}
        tools = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
        call = ModelCall(self.model, self.messages, None, tools, {}, state, run, run.turn + 1)
        reply = await self.row.model(call, counted)
        run.turn += 1
        return reply

    async def looks(self, reply: ModelReply) -> None:
        """The call of the reply has a result."""
        assert reply.message is not None
        self.messages += [reply.message, result("look", id=f"r{len(self.messages)}")]


def look(taken: int, given: int = 10, **more: Any) -> dict[str, Any]:
    """A turn that calls a tool and reports its usage."""
    call = {"name": "look", "args": {}, "id": "c-look"}
    return {"calls": [call], "usage": {"input": taken, "output": given}, **more}


def says(text: str, taken: int, given: int = 10, **more: Any) -> dict[str, Any]:
    return {"text": text, "usage": {"input": taken, "output": given, **more}}


def limit_of(reply: ModelReply) -> dict[str, Any]:
    assert reply.message is not None
    return reply.message.additional_kwargs[LIMIT]


# ---- limits of a run -----------------------------------------------------------------------------


async def test_without_limits_no_books_are_kept() -> None:
    turns = Turns(says("done", 10_000_000))
    reply = await turns.turn()
    assert reply.jump is None
    assert account_of(turns.run) is None


async def test_a_turn_within_the_limit_is_left_alone_and_counted() -> None:
    turns = Turns(says("done", 300, 20), run=run_context(), enabled=True, max_tokens=100_000)
    reply = await turns.turn()
    assert reply.jump is None
    assert turns.account.used.of("tokens") == 320
    assert turns.account.held.of("tokens") == 0
    assert [message.text for message in turns.model.requests[0].messages] == ["go"]
    assert await events(turns.run, "guard") == []


async def test_it_warns_once_and_tells_the_model_at_the_end_of_the_request() -> None:
    script = [look(8_000), look(100), says("done", 100)]
    turns = Turns(*script, enabled=True, max_tokens=100_000, warn=0.08)
    await turns.looks(await turns.turn())
    await turns.looks(await turns.turn())
    await turns.turn()
    (told,) = await events(turns.run, "guard")
    assert told["rule"] == "token_budget.max_tokens"
    assert (told["used"], told["limit"], told["action"]) == (8_010, 100_000, "warned")
    assert "8,010 of 100,000 tokens" in told["message"]


async def test_the_warning_stands_last_in_the_request() -> None:
    turns = Turns(look(81_000), says("done", 120), enabled=True, max_tokens=1_000_000, warn=0.05)
    await turns.looks(await turns.turn())
    await turns.turn()
    first, second = (request.messages for request in turns.model.requests)
    assert WARNING not in first[-1].text
    assert WARNING in second[-1].text
    assert [m.text for m in second[:-1]] == [m.text for m in turns.messages]


async def test_the_last_room_is_used_for_a_closing_answer_without_tools() -> None:
    turns = Turns(look(4_000), says("Half of it: 42.", 4_500), enabled=True, max_tokens=10_000)
    await turns.looks(await turns.turn())
    reply = await turns.turn()
    assert reply.jump == "end"
    assert limit_of(reply) == {"rule": "token_budget.max_tokens", "used": 8_520, "limit": 10_000}
    assert reply.message is not None
    assert reply.message.text.startswith("Half of it: 42.\n\n[Stopped: token_budget.max_tokens")
    closing = turns.model.requests[1]
    assert CLOSING in closing.messages[-1].text
    assert closing.tools == []
    assert turns.model.requests[0].tool_names == ["look"]
    assert (await events(turns.run, "guard"))[-1]["action"] == "stopped"


async def test_without_room_for_it_the_run_ends_with_what_it_wrote_last() -> None:
    turns = Turns({**look(9_500), "text": "Found three of five."}, enabled=True, max_tokens=10_000)
    await turns.looks(await turns.turn())
    reply = await turns.turn()
    assert len(turns.model.requests) == 1
    assert reply.jump == "end"
    assert limit_of(reply) == {"rule": "token_budget.max_tokens", "used": 9_510, "limit": 10_000}
    assert reply.message is not None
    assert reply.message.text.startswith("Found three of five.\n\n[Stopped: ")
    assert "the next step needs about" in reply.message.text


async def test_a_closing_answer_that_calls_tools_ends_all_the_same() -> None:
    turns = Turns(look(4_000), look(4_000), enabled=True, max_tokens=10_000)
    await turns.looks(await turns.turn())
    reply = await turns.turn()
    assert reply.jump == "end"
    assert reply.message is not None and reply.message.tool_calls
    assert limit_of(reply)["rule"] == "token_budget.max_tokens"


async def test_a_closing_answer_that_fails_leaves_the_partial_result() -> None:
    script = [{**look(4_000), "text": "So far: 1."}, {"error": "server"}]
    turns = Turns(*script, enabled=True, max_tokens=10_000)
    await turns.looks(await turns.turn())
    reply = await turns.turn()
    assert reply.message is not None
    assert reply.message.text.startswith("So far: 1.")
    assert limit_of(reply)["used"] == 4_010
    assert turns.account.held.of("tokens") == 0


async def test_run_goes_before_max_tokens_and_needs_no_switch() -> None:
    turns = Turns(look(900))
    turns.row = TokenBudgetMiddleware(
        TokenBudgetConfig.model_validate({"run": 500}), OFF, turns.catalog
    )
    await turns.looks(await turns.turn())
    reply = await turns.turn()
    assert limit_of(reply)["rule"] == "token_budget.run"


@pytest.mark.parametrize(
    ("config", "rule"),
    [
        ({"max_input_tokens": 5_000}, "token_budget.max_input_tokens"),
        ({"max_output_tokens": 4_000}, "token_budget.max_output_tokens"),
    ],
)
async def test_input_and_output_have_limits_of_their_own(config: Any, rule: str) -> None:
    turns = Turns(look(4_990, 3_990), enabled=True, max_tokens=10**6, **config)
    await turns.looks(await turns.turn())
    reply = await turns.turn()
    assert limit_of(reply)["rule"] == rule
    assert reply.message is not None
    assert rule.split(".")[1].split("_")[1] + " tokens" in reply.message.text


async def test_hard_moves_the_end() -> None:
    turns = Turns(look(5_200), enabled=True, max_tokens=10_000, hard=0.5)
    await turns.looks(await turns.turn())
    assert limit_of(await turns.turn()) == {
        "rule": "token_budget.max_tokens", "used": 5_210, "limit": 5_000
    }  # fmt: skip


async def test_unknown_usage_is_estimated() -> None:
    turns = Turns({"text": "x" * 30_000}, enabled=True, max_tokens=100_000)
    await turns.turn()
    assert 10_000 < turns.account.used.of("output") < 10_100
    assert turns.account.used.of("input") > 0


async def test_cached_tokens_count_as_tokens_and_cost_less() -> None:
    usage = {"input": 1_000_000, "output": 0, "cached": 1_000_000}
    turns = Turns({"text": "x", "usage": usage}, catalog=Priced, money_day=100.0, currency="EUR")
    await turns.turn()
    assert turns.account.used.of("tokens") == 1_000_000
    assert turns.account.used.of("money") == pytest.approx(0.5)


async def test_an_open_question_ends_the_run_without_a_budget() -> None:
    turns = Turns(enabled=True, max_tokens=1)
    asked = result("ask", id="r")
    asked.additional_kwargs["deerflow_question"] = {"question": "?"}
    turns.messages += [calls("ask"), asked]
    seen: list[ModelCall] = []

    async def next_(call: ModelCall) -> ModelReply:
        seen.append(call)
        return ModelReply(None, jump="end")

    state = {"messages": turns.messages}
    call = ModelCall(turns.model, turns.messages, None, [], {}, state, turns.run, 1)
    reply = await turns.row.model(call, next_)
    assert reply.message is None
    assert len(seen) == 1


async def test_what_was_reserved_is_given_back_when_the_call_fails_or_is_cancelled() -> None:
    turns = Turns(
        {"error": "server"}, {"text": "late", "delay_ms": 60_000}, enabled=True, max_tokens=50_000
    )
    with pytest.raises(ModelUnavailableError):
        await turns.turn()
    assert turns.account.held.of("tokens") == 0
    hanging = asyncio.create_task(turns.turn())
    while not turns.account.held.of("tokens"):  # noqa: ASYNC110  (nothing tells of a reservation)
        await asyncio.sleep(0)
    hanging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hanging
    assert turns.account.held.of("tokens") == 0


# ---- the day -------------------------------------------------------------------------------------


async def test_a_run_that_starts_with_the_day_used_up_ends_at_once() -> None:
    turns = Turns(user_day=5_000)
    await turns.run.storage.spending.add("ann", today(), 5_000, {})
    reply = await turns.turn()
    assert limit_of(reply) == {"rule": "token_budget.user_day", "used": 5_000, "limit": 5_000}
    assert reply.message is not None
    assert "today" in reply.message.text
    assert "00:00 UTC" in reply.message.text


async def test_what_others_spend_meanwhile_counts() -> None:
    turns = Turns(look(10), look(10), user_day=100_000)
    await turns.looks(await turns.turn())
    await turns.run.storage.spending.add("ann", today(), 99_000, {})
    assert turns.account.day is not None
    turns.account.day.read_at -= 6
    reply = await turns.turn()
    assert limit_of(reply)["used"] == 99_020
    spent = await turns.run.storage.spending.of("ann", today())
    assert spent.tokens == 99_020


async def test_money_of_the_day_by_the_price_of_the_model() -> None:
    turns = Turns(look(400_000, 50_000), catalog=Priced, money_day=0.5, currency="EUR")
    await turns.looks(await turns.turn())
    reply = await turns.turn()
    assert limit_of(reply) == {"rule": "token_budget.money_day", "used": 0.5, "limit": 0.5}
    assert reply.message is not None
    assert "0.5 of 0.5 EUR" in reply.message.text
    assert (await turns.run.storage.spending.of("ann", today())).money == {"EUR": 0.5}


@pytest.mark.parametrize("pricing", [None, Pricing("USD", 1.0, 1.0)])
async def test_a_model_without_a_price_in_that_currency_is_named_once(pricing: Any) -> None:
    class Other(Priced):
        pass

    Other.pricing = pricing
    turns = Turns(look(10**6), says("x", 1), catalog=Other, money_day=0.01, currency="EUR")
    await turns.looks(await turns.turn())
    assert (await turns.turn()).jump is None
    (notice,) = await events(turns.run, "notice")
    assert "'main'" in notice["message"]
    assert "EUR" in notice["message"]


# ---- children ------------------------------------------------------------------------------------


def child_of(run: RunContext, name: str) -> RunContext:
    return run.child(name, run.model_name, 50)


async def test_a_child_has_a_budget_of_its_own() -> None:
    budget = SubagentTokenBudgetConfig(enabled=True, max_tokens=3_000)
    turns = Turns(look(2_900), says("lead", 2_900), child=budget)
    child = child_of(turns.run, "c1")
    await turns.looks(await turns.turn(child))
    reply = await turns.turn(child)
    assert limit_of(reply)["rule"] == "subagents.token_budget.max_tokens"
    assert reply.message is not None
    assert reply.message.id is not None and "c1" in reply.message.id
    assert (await turns.turn()).jump is None, "the lead is not under it"
    warned = (await events(turns.run, "guard"))[0]
    assert (warned["task_id"], warned["used"]) == ("c1", 2_910)


async def test_siblings_share_what_is_left_and_wait_for_each_other() -> None:
    """Each alone would fit; together they would not: the second waits, then finds nothing left."""
    script = [says("a", 40_000), says("b", 40_000)]
    turns = Turns(*[{**turn, "delay_ms": 1} for turn in script], enabled=True, max_tokens=60_000)
    one, two = child_of(turns.run, "c1"), child_of(turns.run, "c2")
    turns.messages[0] = HumanMessage("x" * 30_000 * 3, id=turns.run.input_id)
    replies = await asyncio.gather(turns.turn(one), turns.turn(two))
    assert len(turns.model.requests) == 1
    assert sum(LIMIT in (r.message.additional_kwargs if r.message else {}) for r in replies) == 2
    assert turns.account.used.of("tokens") == 40_010
    assert turns.account.held.of("tokens") == 0


async def test_a_sibling_that_waited_goes_on_when_room_is_given_back() -> None:
    script = [{**says("a", 100), "delay_ms": 1}, says("b", 100)]
    turns = Turns(*script, enabled=True, max_tokens=21_000)
    turns.messages[0] = HumanMessage("x" * 8_000 * 3, id=turns.run.input_id)
    one, two = child_of(turns.run, "c1"), child_of(turns.run, "c2")
    replies = await asyncio.gather(turns.turn(one), turns.turn(two))
    assert len(turns.model.requests) == 2
    assert [r.message.text for r in replies if r.message] == ["a", "b"]


async def test_children_leave_room_for_the_closing_answer_of_the_lead() -> None:
    script = [look(3_000), look(5_000), says("The best so far.", 3_100)]
    turns = Turns(*script, enabled=True, max_tokens=13_000)
    await turns.looks(await turns.turn())
    child = child_of(turns.run, "c1")
    await turns.looks(await turns.turn(child))
    stopped = await turns.turn(child)
    assert len(turns.model.requests) == 2
    assert limit_of(stopped)["used"] == 8_020
    closed = await turns.turn()
    assert closed.message is not None
    assert closed.message.text.startswith("The best so far.")
    assert turns.account.used.of("tokens") <= 13_000


# ---- a kill --------------------------------------------------------------------------------------


async def test_a_resumed_run_remembers_what_was_paid_and_what_was_warned() -> None:
    run = run_context()
    said = AIMessage("a", id="ai-1").model_dump() | {
        "usage_metadata": {"input_tokens": 8_500, "output_tokens": 500}
    }
    run.emit("message", {"message": said})
    child = {"usage_metadata": {"input_tokens": 300, "output_tokens": 1}, "type": "ai", "id": "b"}
    run.emit("task_running", {"task_id": "c1", "message": child})
    paid = {"input": 40, "output": 2, "total": 42}
    run.emit("usage", {"caller": "title", "model": "main", "usage": paid})
    guard = {"rule": "token_budget.max_tokens", "used": 8_010, "limit": 10_000, "action": "warned"}
    run.emit("guard", guard)
    run.resumed = True
    turns = Turns(run=run, enabled=True, max_tokens=10_000)
    reply = await turns.turn()
    assert limit_of(reply)["used"] == 9_343
    assert turns.account.by_child["c1"][0].of("tokens") == 301
    assert [told["action"] for told in await events(run, "guard")] == ["warned", "stopped"]
    assert (await run.storage.spending.of("ann", today())).tokens == 0, "it was entered before"


async def test_a_recorded_reply_is_asked_for_in_the_form_in_which_it_was_sent() -> None:
    """The warning came after the reply was paid: the request is built without it again."""
    run = run_context(resumed=True)
    turns = Turns(run=run, enabled=True, max_tokens=10_000)
    call = ModelCall(turns.model, turns.messages, None, [], {}, {}, run, 1)
    key = ModelKey(run.thread_key, run.run_id, "", 1, request_digest(call))
    await run.storage.journal.model_finished(key, Codec().dump(AIMessage("paid", id="p")))
    usage = UsageMetadata(input_tokens=9_990, output_tokens=10, total_tokens=10_000)
    sent: list[ModelCall] = []

    async def next_(inner: ModelCall) -> ModelReply:
        sent.append(inner)
        message = AIMessage("paid", id="p", additional_kwargs={REPLAYED: True})
        message.usage_metadata = usage
        return ModelReply(message)

    reply = await turns.row.model(call, next_)
    assert reply.jump is None
    assert request_digest(sent[0]) == request_digest(call)
    assert turns.account.used.of("tokens") == 10_000
