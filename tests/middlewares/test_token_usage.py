"""Row 17: tokens by model and by caller, also over a fall-over and a resume."""

from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from deerflow.agent.context import RunContext
from deerflow.agent.hooks import ModelCall, ModelReply
from deerflow.agent.journal import LIMIT
from deerflow.middlewares.token_usage import MODEL, TokenUsageMiddleware, meter_of, usage_of
from deerflow.models.scripted import ScriptedChatModel
from fakes.catalogs import ScriptedCatalog
from fakes.rows import run_context

USAGE = {"input": 100, "output": 10, "cached": 60, "reasoning": 4}


async def terminal(call: ModelCall) -> ModelReply:
    reply = await call.model.ainvoke(call.messages)
    assert isinstance(reply, AIMessage)
    return ModelReply(reply)


def ask(run: RunContext, model: Any, messages: list[AnyMessage] | None = None) -> ModelCall:
    held: list[AnyMessage] = messages or [HumanMessage("go", id=run.input_id)]
    return ModelCall(model, held, None, [], {}, {"messages": held}, run, 1)


async def test_counts_by_model_and_by_caller():
    turn = {"text": "x", "usage": USAGE, "times": 2}
    catalog = ScriptedCatalog(main=[turn], spare=[turn])
    row, run = TokenUsageMiddleware(catalog), run_context()
    assert usage_of(run) == {}
    await row.model(ask(run, catalog.models["main"]), terminal)
    await row.model(ask(run, catalog.models["main"]), terminal)
    reply = await row.model(ask(run, catalog.models["spare"]), terminal)
    assert reply.message is not None and reply.message.response_metadata[MODEL] == "spare"
    used = usage_of(run)
    assert used["by_model"]["main"]["total"] == 220
    assert used["by_model"]["spare"]["calls"] == 1
    assert used["by_caller"]["lead"]["cached"] == 180
    assert used["total"]["reasoning"] == 12


async def test_a_child_is_its_own_caller_and_may_be_merged():
    catalog = ScriptedCatalog(main=[{"text": "x", "usage": USAGE, "times": 2}])
    row, lead, child = TokenUsageMiddleware(catalog), run_context(), run_context(agent="child-1")
    await row.model(ask(lead, catalog.models["main"]), terminal)
    await row.model(ask(child, catalog.models["main"]), terminal)
    meter_of(lead).merge(meter_of(child))
    assert set(usage_of(lead)["by_caller"]) == {"lead", "child-1"}


async def test_unknown_usage_is_estimated_and_marked():
    catalog = ScriptedCatalog(main=["some words"])
    run = run_context()
    await TokenUsageMiddleware(catalog).model(ask(run, catalog.models["main"]), terminal)
    total = usage_of(run)["total"]
    assert total["estimated"] == 1 and total["input"] > 0 and total["output"] > 0


async def test_a_model_from_outside_is_counted_under_the_runs_name():
    run = run_context(model_name="mine")
    model = ScriptedChatModel(script=[{"text": "x", "usage": USAGE}])
    await TokenUsageMiddleware(ScriptedCatalog(main=[])).model(ask(run, model), terminal)
    assert usage_of(run)["by_model"]["mine"]["input"] == 100


async def test_a_reply_that_no_model_wrote_is_not_counted():
    async def limit(_call: ModelCall) -> ModelReply:
        return ModelReply(AIMessage("Stopped", additional_kwargs={LIMIT: {}}), jump="end")

    catalog = ScriptedCatalog(main=[])
    run = run_context()
    await TokenUsageMiddleware(catalog).model(ask(run, catalog.models["main"]), limit)
    assert usage_of(run)["total"]["calls"] == 0


async def test_a_resumed_run_counts_what_its_former_process_paid_once():
    catalog = ScriptedCatalog(main=[{"text": "x", "usage": USAGE, "times": 9}])
    row, before = TokenUsageMiddleware(catalog), run_context()
    replies: list[AnyMessage] = []
    for number in range(2):
        reply = await row.model(ask(before, catalog.models["main"]), terminal)
        assert reply.message is not None
        reply.message.id = f"ai-{number}"
        replies.append(reply.message)
    older, *_ = replies
    history = [
        HumanMessage("before", id="in-r0"),
        older.model_copy(update={"id": "ai-old"}),
        HumanMessage("go", id=before.input_id),
        *replies,
    ]
    after = run_context(resumed=True)
    await row.model(ask(after, catalog.models["main"], history), terminal)
    assert usage_of(after)["total"]["calls"] == 3
    await row.model(ask(after, catalog.models["main"], history), terminal)
    assert usage_of(after)["total"]["calls"] == 4
    fresh = run_context(run_id="r2")
    await row.model(ask(fresh, catalog.models["main"], history), terminal)
    assert usage_of(fresh)["total"]["calls"] == 1
