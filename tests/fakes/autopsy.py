"""Reads what killed processes left behind, and says what is wrong with it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deerflow.agent.journal import NOT_FINISHED, NOT_RUN
from deerflow.events import Event
from deerflow.storage.sql.driver import connect
from deerflow.wiring.harness import Harness
from fakes.killer import UNKNOWN, is_legal, read_ledger


@dataclass(frozen=True)
class Recorded:
    """What was durable of a thread's last run at the moment of a kill.

    Attributes:
        replies: model replies in the journal or the log.
        results: places of tool calls whose result is in the log.
    """

    replies: int
    results: frozenset[str]


@dataclass(frozen=True)
class Findings:
    """The end of a thread.

    Attributes:
        problems: what is wrong, [] when nothing is.
        unknown: tool calls that were told "outcome unknown".
        statuses: of its runs, oldest first.
    """

    problems: list[str]
    unknown: int
    statuses: list[str]


async def events_of(harness: Harness, thread_id: str) -> list[Event]:
    """The whole log of a thread, [] when there is no such thread yet."""
    thread = await harness.storage.threads.get("local", thread_id)
    return [] if thread is None else await harness.storage.events.read(thread.thread_key)


async def messages_of(harness: Harness, thread_id: str) -> tuple[list[Any], dict[str, Any]]:
    """Stored messages and the whole state of a thread."""
    thread = await harness.storage.threads.get("local", thread_id)
    assert thread is not None
    graph = await harness.agents.graph("scripted")
    state = await graph.aget_state({"configurable": {"thread_id": thread.thread_key}})
    return list(state.values.get("messages", ())), dict(state.values)


async def recorded(harness: Harness, home: Path, thread_id: str) -> Recorded:
    """See Recorded. Replies are counted in the database, since the journal has no listing."""
    events = await events_of(harness, thread_id)
    if not events:
        return Recorded(0, frozenset())
    run_id = events[-1].run_id
    logged = [e.payload["message"] for e in events if e.type == "message" and e.run_id == run_id]
    # the harness's own driver: a second SQLite library in a process breaks the locks of the first
    connection = connect(home / "data" / "deerflow.db", read_only=True)
    (journal,) = connection.execute(
        "SELECT count(*) FROM model_calls WHERE run_id = ?", (run_id,)
    ).fetchone()
    connection.close()
    spoken = sum(m["type"] == "ai" for m in logged)
    places = {call["id"]: call["args"]["place"] for m in logged for call in m.get("tool_calls", ())}
    results = frozenset(places[m["tool_call_id"]] for m in logged if m["type"] == "tool")
    return Recorded(max(journal, spoken), results)


def repeated(home: Path, thread_id: str, before: Recorded, dead: set[int]) -> list[str]:
    """Recorded steps that a process not among the dead took again."""
    wrong: list[str] = []
    for line in read_ledger(home, "requests"):
        if line["thread"] == thread_id and line["pid"] not in dead and line["story"] == "first":
            if line["answered"] < before.replies:
                wrong.append(f"reply {line['answered'] + 1} was recorded and asked for again")
    for line in [*read_ledger(home, "reads"), *read_ledger(home, "effects")]:
        if line["thread"] == thread_id and line["pid"] not in dead:
            if line["place"] in before.results:
                wrong.append(f"the result of {line['place']} was recorded and it ran again")
    return wrong


async def examine(harness: Harness, home: Path, thread_id: str) -> Findings:
    """Everything that must hold of a thread whose runs have all ended."""
    events = await events_of(harness, thread_id)
    messages, state = await messages_of(harness, thread_id)
    thread = await harness.storage.threads.get("local", thread_id)
    assert thread is not None
    runs = await harness.storage.threads.runs(thread.thread_key)
    problems = [
        *_log(events),
        *_history(events, messages),
    ]
    cut = any(run.status != "success" for run in runs)
    problems += _effects(home, thread_id, messages, ended_early=cut)
    for event in events:
        if event.type == "model_started":
            left = await harness.storage.deltas.read(event.run_id, event.payload["message_id"])
            if left:
                problems.append(f"deltas of {event.payload['message_id']} were left: {left}")
    expected = [
        f"/{m.content.removeprefix('did ')}"
        for m in messages
        if m.type == "tool" and m.name == "note" and m.status == "success"
    ]
    if state.get("artifacts", []) != expected:
        problems.append(f"state says {state.get('artifacts')}, results say {expected}")
    illegal = [
        line
        for line in read_ledger(home, "requests")
        if line["thread"] == thread_id and not line["legal"]
    ]
    if illegal:
        problems.append(f"illegal requests: {illegal}")
    unknown = sum(m.type == "tool" and UNKNOWN in str(m.content) for m in messages)
    return Findings(problems, unknown, [run.status for run in reversed(runs)])


def _log(events: list[Event]) -> list[str]:
    problems: list[str] = []
    if [e.seq for e in events] != list(range(1, len(events) + 1)):
        problems.append(f"seq is not gapless: {[e.seq for e in events]}")
    once = Counter((event.type, key) for event in events if (key := _identity(event)))
    twice = [key for key, number in once.items() if number > 1]
    if twice:
        problems.append(f"in the log twice: {twice}")
    started = {e.run_id for e in events if e.type == "run_started"}
    ended = {e.run_id for e in events if e.type == "run_ended"}
    if started != ended:
        problems.append(f"runs without an end: {started - ended}")
    spoken = {
        e.payload["message"]["id"]
        for e in events
        if e.type == "message" and e.payload["message"]["type"] == "ai"
    }
    completed = {e.payload["message_id"] for e in events if e.type == "model_completed"}
    if spoken != completed:
        problems.append(f"messages and model_completed differ: {spoken ^ completed}")
    for run_id in ended:
        problems += _sums([e for e in events if e.run_id == run_id])
    return problems


def _identity(event: Event) -> str:
    """What of an event must be in the log once, "" for the other types."""
    match event.type:
        case "message":
            return str(event.payload["message"]["id"])
        case "model_completed":
            return str(event.payload["message_id"])
        case "tool_completed":
            return str(event.payload["tool_call_id"])
        case "run_ended":
            return event.run_id
        case _:
            return ""


def _sums(events: list[Event]) -> list[str]:
    """Turns count from 1, and the usage at the end is that of every reply."""
    replies = [e.payload for e in events if e.type == "model_completed"]
    problems: list[str] = []
    if [reply["turn"] for reply in replies] != list(range(1, len(replies) + 1)):
        problems.append(f"turns: {[reply['turn'] for reply in replies]}")
    paid = sum(reply["usage"]["total_tokens"] for reply in replies)
    for event in events:
        if event.type == "run_ended" and event.payload["status"] == "success":
            told = event.payload["usage"].get("total", {}).get("total")
            if told != paid:
                problems.append(f"usage says {told}, the replies sum up to {paid}")
    return problems


def _history(events: list[Event], messages: list[Any]) -> list[str]:
    problems: list[str] = []
    if not is_legal(messages):
        problems.append(f"illegal history: {[(m.type, m.content) for m in messages]}")
    logged: dict[str, Any] = {}
    for e in events:
        if e.type == "message":
            m = e.payload["message"]
            logged[m["id"]] = (m["type"], m["content"], m.get("status"), m.get("tool_call_id"))
        elif e.type == "model_retry":
            logged.pop(e.payload["message_id"], None)
    stored = {
        m.id: (
            m.type, m.text, getattr(m, "status", None), getattr(m, "tool_call_id", None)
        )
        for m in messages
    }  # fmt: skip
    if logged != stored:
        odd = {key: (logged.get(key), stored.get(key)) for key in logged.keys() | stored.keys()}
        odd = {key: pair for key, pair in odd.items() if pair[0] != pair[1]}
        problems.append(f"log and history differ (logged, stored): {odd}")
    spoken = [key for key, record in logged.items() if record[0] != "tool"]
    if spoken != [m.id for m in messages if m.type != "tool"]:
        problems.append("log and history have another order")
    return problems


def _effects(home: Path, thread_id: str, messages: list[Any], *, ended_early: bool) -> list[str]:
    """No effect twice; each result tells the truth about its effect."""
    done = Counter(
        line["place"] for line in read_ledger(home, "effects") if line["thread"] == thread_id
    )
    problems = [f"{place} happened {n} times" for place, n in done.items() if n > 1]
    places = {c["id"]: c for m in messages if m.type == "ai" for c in m.tool_calls}
    for message in messages:
        if message.type != "tool":
            continue
        call = places[message.tool_call_id]
        place, text = call["args"]["place"], str(message.content)
        open_ended = UNKNOWN in text or NOT_FINISHED in text
        if call["name"] in ("effect", "note", "failing") and not open_ended:
            if done[place] != ("Not run" not in text):
                problems.append(f"{place}: {text!r}, but it happened {done[place]} times")
        right = {
            "effect": f"did {place}", "note": f"did {place}", "peek": f"saw {place}",
            "failing": f"broke at {place}", "flaky_peek": f"nothing at {place}",
            "nothing_like_it": "no tool",
        }[call["name"]]  # fmt: skip
        excused = ended_early and any(words in text for words in (NOT_RUN, NOT_FINISHED, UNKNOWN))
        if not excused and right not in text and (UNKNOWN not in text or "peek" in call["name"]):
            problems.append(f"{place}: wrong result {text!r}")
    return problems
