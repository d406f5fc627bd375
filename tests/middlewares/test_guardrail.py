"""Row 18: verdicts, failures of providers, pauses, and calls that are entered again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from deerflow.agent.calls import CallBook
from deerflow.agent.context import RunContext
from deerflow.agent.journal import Codec, ToolJournal
from deerflow.config.access import GuardrailsConfig
from deerflow.guardrails import approvals
from deerflow.guardrails.inmemory import InMemoryGuardrails
from deerflow.guardrails.protocol import Action, GuardrailProvider, Verdict
from deerflow.middlewares.guardrail import GuardrailMiddleware, SupersededCalls
from deerflow.storage.protocol import ApprovalRow, CallKey, Decision
from fakes.rows import call_tool, calls, events, request, run_context, tool

CLOSED = GuardrailsConfig()
OPEN = GuardrailsConfig(fail_closed=False)
DROP = tool("drop")
KEY = CallKey("key", "r1", "", "a1", 0)
IDENT = approvals.approval_id(KEY)


def row(
    provider: GuardrailProvider | None, config: GuardrailsConfig = CLOSED, **more: Any
) -> GuardrailMiddleware:
    return GuardrailMiddleware(config, provider, **{"pause": pause, **more})


def run_of(**facts: Any) -> RunContext:
    run = run_context(**facts)
    run.scratch[CallBook] = CallBook()
    return run


async def enter(
    middleware: GuardrailMiddleware, run: RunContext, *, journal: bool = True, **args: Any
) -> tuple[Any, list[dict[str, Any]]]:
    """One call of `drop`, through the row and the journal; the result, and what was done."""
    done: list[dict[str, Any]] = []

    async def effect(**given: Any) -> str:
        done.append(given)
        return "dropped"

    state = {"messages": [calls("drop", **args)]}
    rows = [middleware, ToolJournal(Codec())] if journal else [middleware]
    call = request(DROP, run, state, **args)
    try:
        result = await call_tool(rows, run, call, effect)
    except PausedError as paused:
        result = paused.value
    return result, done


class PausedError(Exception):
    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.value = value


def pause(value: Any) -> Any:
    """Outside of a graph LangGraph's interrupt has no place to go."""
    raise PausedError(value)


class Fails(InMemoryGuardrails):
    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._error = error

    async def evaluate(self, action: Action) -> Verdict:
        raise self._error


class Hangs(InMemoryGuardrails):
    def __init__(self) -> None:
        super().__init__()
        self.cancelled = asyncio.Event()

    async def evaluate(self, action: Action) -> Verdict:
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()
        raise AssertionError


class Says(InMemoryGuardrails):
    def __init__(self, verdict: Any) -> None:
        super().__init__()
        self._verdict = verdict

    async def evaluate(self, action: Action) -> Verdict:
        return self._verdict


class Instant(Fails):
    instant = True


async def test_a_provider_that_never_waits_fails_like_any_other() -> None:
    for config, said in ((CLOSED, "failed (KeyError)"), (OPEN, "dropped")):
        result, done = await enter(row(Instant(KeyError("x")), config), run_of())
        assert said in result.content
        assert bool(done) is (config is OPEN)


async def test_allow_and_what_the_provider_is_told() -> None:
    provider = InMemoryGuardrails()
    run = run_of(agent="helper", audience="child")
    result, done = await enter(row(provider), run, what="x")
    assert (result.content, done) == ("dropped", [{"what": "x"}])
    assert provider.actions == [Action("drop", {"what": "x"}, "ann", "t", "r1", "helper")]


async def test_deny_answers_with_the_reason_and_leaves_a_trace() -> None:
    provider = InMemoryGuardrails({"drop": Verdict("deny", "it is in\nuse", "rules[3]")})
    run = run_of()
    result, done = await enter(row(provider), run)
    assert (result.status, done) == ("error", [])
    assert "guardrail_denied" in result.content
    assert "it is in" in result.content
    [guard] = await events(run, "guard")
    assert (guard["rule"], guard["detail"], guard["action"]) == ("guardrail", "rules[3]", "denied")


@pytest.mark.parametrize(
    "provider",
    [
        Fails(ValueError("secret=abc")),
        Fails(asyncio.CancelledError()),
        Says(None),
        Says("allow"),
        Says(Verdict("perhaps")),  # pyright: ignore[reportArgumentType]
        Says(Verdict("ask", expires_seconds=float("nan"))),
        Says(Verdict("ask", expires_seconds=-1)),
        Says(Verdict("ask", default="maybe")),  # pyright: ignore[reportArgumentType]
    ],
)
async def test_a_provider_that_fails_denies_or_allows_with_a_notice(provider: Any) -> None:
    run = run_of()
    result, done = await enter(row(provider), run)
    assert (result.status, done) == ("error", [])
    assert "secret" not in result.content
    result, done = await enter(row(provider, OPEN), run)
    assert (result.content, done) == ("dropped", [{}])
    [notice] = await events(run, "notice")
    assert "drop was allowed" in notice["message"]
    assert "secret" not in notice["message"]


async def test_a_provider_that_hangs_counts_as_a_failure_and_is_stopped() -> None:
    provider = Hangs()
    result, done = await enter(row(provider, seconds=0.01), run_of())
    assert (result.status, done) == ("error", [])
    assert "took more than 0.01 s" in result.content
    async with asyncio.timeout(5):
        await provider.cancelled.wait()


async def test_a_stopped_run_stops_the_provider() -> None:
    provider = Hangs()
    task = asyncio.create_task(enter(row(provider), run_of()))
    await asyncio.sleep(0)
    while not provider.cancelled.is_set():
        task.cancel()
        await asyncio.wait({task}, timeout=0.01)
    with pytest.raises(asyncio.CancelledError):
        await task


ASK = Verdict("ask", "really?", "rule", 60)


async def asked(**facts: Any) -> tuple[RunContext, ApprovalRow]:
    """A run that has asked."""
    run = run_of(**facts)
    payload, done = await enter(row(InMemoryGuardrails({"drop": ASK})), run, what="x")
    assert done == []
    assert payload["approval_id"] == IDENT or facts
    [found] = await run.storage.approvals.list("ann")
    return run, found


def again(run: RunContext, **facts: Any) -> RunContext:
    """The same run in another process."""
    return run_of(storage=run.storage, resumed=True, completed=set(run.completed), **facts)


async def test_ask_pauses_before_anything_runs_and_asks_once() -> None:
    run, found = await asked()
    assert (found.approval_id, found.tool, found.args) == (IDENT, "drop", {"what": "x"})
    assert (found.reason, found.default, found.status) == ("really?", "deny", "pending")
    assert found.expires_at == found.created_at + 60
    provider = InMemoryGuardrails({"drop": ASK})
    payload, done = await enter(row(provider), again(run), what="x")
    assert (payload["approval_id"], done) == (IDENT, [])
    assert provider.actions == []  # a pending call stays pending, whatever the policy says now
    [event] = await events(run, "approval_requested")
    assert event["tool_call_id"] == "c-drop"
    assert event["expires_at"] == found.expires_at


async def test_a_kill_between_row_and_event_loses_no_event() -> None:
    run, found = await asked()
    fresh = run_of(storage=run.storage, resumed=True)  # its log had nothing
    await enter(row(None), fresh, what="x")
    await run.storage.approvals.decide("ann", IDENT, Decision("rejected", "ann", 1.0, note="no"))
    await enter(row(None), fresh, what="x")
    await enter(row(None), fresh, what="x")
    assert len(await events(run, "approval_requested")) == 2
    assert [d["status"] for d in await events(run, "approval_decided")] == ["rejected"]
    assert found.status == "pending"


@pytest.mark.parametrize(
    ("decision", "said", "done"),
    [
        (Decision("approved", "ann", 1.0), "dropped", [{"what": "x"}]),
        (Decision("rejected", "ann", 1.0, note="keep it."), "Not approved: keep it. Go", []),
        (Decision("rejected", "ann", 1.0), "Not approved: the user said no. Go", []),
        (Decision("expired", "expiry", 1.0), "Not approved within 60 seconds.", []),
        (Decision("superseded", "x", 1.0), "Not approved: superseded by a new message.", []),
    ],
)
async def test_a_decided_call(decision: Decision, said: str, done: list[Any]) -> None:
    run, _ = await asked()
    await run.storage.approvals.decide("ann", IDENT, decision)
    result, did = await enter(row(InMemoryGuardrails()), again(run), what="x")
    assert result.content.startswith(said)
    assert did == done
    assert result.status == ("success" if done else "error")


async def test_edited_arguments_reach_the_tool_and_the_result_says_so() -> None:
    run, _ = await asked()
    edited = Decision("approved", "ann", 1.0, {"what": "y"})
    await run.storage.approvals.decide("ann", IDENT, edited)
    provider = InMemoryGuardrails({"drop": ASK})
    result, done = await enter(row(provider), again(run), what="x")
    assert done == [{"what": "y"}]
    assert [action.args for action in provider.actions] == [{"what": "y"}]
    first, _, rest = result.content.partition("\n")
    assert "Approved with other arguments" in first
    assert rest == "dropped"
    replayed, done = await enter(row(provider), again(run), what="x")
    assert (replayed.content, done) == (result.content, [])


async def test_time_that_has_run_out_decides_on_entry() -> None:
    for default, did in (("deny", []), ("allow", [{"what": "x"}])):
        run = run_of()
        verdict = Verdict("ask", "", "", 60, default)  # pyright: ignore[reportArgumentType]
        times = [1000.0]
        middleware = row(InMemoryGuardrails({"drop": verdict}), clock=lambda: times[0])  # noqa: B023
        await enter(middleware, run, what="x")
        times[0] = 1059.9
        _, done = await enter(middleware, again(run), what="x")
        assert done == []
        times[0] = 1060.0
        _, done = await enter(middleware, again(run), what="x")
        assert done == did
        [told] = await events(run, "approval_decided")
        assert (told["status"], told["by"]) == ("expired", "expiry")


async def test_a_call_that_has_begun_is_not_judged_again() -> None:
    run = run_of()
    await enter(row(InMemoryGuardrails()), run)
    strict = InMemoryGuardrails(default=Verdict("deny", "changed"))
    result, done = await enter(row(strict), again(run))
    assert (result.content, done, strict.actions) == ("dropped", [], [])


async def test_without_a_policy_decisions_still_hold() -> None:
    run, _ = await asked()
    await run.storage.approvals.decide("ann", IDENT, Decision("rejected", "ann", 1.0))
    result, done = await enter(row(None), again(run), what="x")
    assert (result.status, done) == ("error", [])
    result, done = await enter(row(None), run_of())
    assert (result.content, done) == ("dropped", [{}])


async def test_a_run_that_is_closed_runs_nothing() -> None:
    run, _ = await asked()
    await run.storage.approvals.decide("ann", IDENT, Decision("approved", "ann", 1.0))
    provider = InMemoryGuardrails()
    result, done = await enter(row(provider), again(run, closing=True), what="x")
    assert (result.content, done) == ("Not run: the run ended before this call.", [])
    assert provider.actions == []


async def test_a_call_whose_child_waited_says_so_unless_it_has_a_result() -> None:
    run = run_of()
    closing = again(run, closing=True)
    closing.scratch[SupersededCalls] = SupersededCalls(frozenset({"c-drop"}))
    result, _ = await enter(row(None), closing)
    assert result.content == approvals.SUPERSEDED_CHILD
    await enter(row(None), run)
    result, _ = await enter(row(None), closing)
    assert result.content == "dropped"


async def test_a_long_reason_and_long_arguments_are_bounded_in_events_not_in_the_row() -> None:
    run = run_of()
    long = "x" * 100_000
    ask = Verdict("ask", "why " * 1000, "rule")
    payload, _ = await enter(row(InMemoryGuardrails({"drop": ask})), run, what=long)
    [found] = await run.storage.approvals.list("ann")
    assert found.args == {"what": long}
    assert len(found.reason) < 600
    assert found.expires_at is None
    [event] = await events(run, "approval_requested")
    for told in (payload, event):
        assert len(told["args"]["what"]) < 5_000
        assert "100000 characters in all" in told["args"]["what"]


@pytest.mark.parametrize(
    ("answer", "done"),
    [
        (True, [{"what": "x"}]),
        ({"approved": True, "args": {"what": "y"}}, [{"what": "y"}]),
        ({"approved": False, "reason": "no"}, []),
        ("yes", []),
        (None, []),
    ],
)
async def test_a_foreign_runner_answers_with_a_value(answer: Any, done: list[Any]) -> None:
    run = run_of()
    middleware = row(InMemoryGuardrails({"drop": ASK}), pause=lambda _: answer)
    _, did = await enter(middleware, run, what="x")
    assert did == done
    [told] = await events(run, "approval_decided")
    assert told["by"] == "runner"
