"""A run with children survives kill -9: they go on where they were, nothing is paid twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from deerflow.events import TASK_EVENTS, Event
from deerflow.storage.sql.driver import connect
from deerflow.wiring.harness import Harness
from fakes.autopsy import events_of, messages_of
from fakes.killer import (
    ANSWER,
    FAMILY,
    UNKNOWN,
    Order,
    World,
    Zygote,
    killer_harness,
    read_ledger,
    zygote,
)

KIN = "kin"
STATES = ("task_started", "task_completed")
EFFECTS = 6
"""Effects and notes of the story."""
TURNS = sum(map(len, FAMILY.values()))
PAID = sum(t["usage"]["input"] + t["usage"]["output"] for ts in FAMILY.values() for t in ts)


class Scale(Protocol):
    def __call__(self, short: int, long: int) -> int: ...


@pytest.fixture(scope="module")
def born() -> Iterator[Zygote]:
    with zygote() as running:
        yield running


def recorded(home: Path) -> int:
    """Replies in the journal, of the lead and of both children."""
    file = home / "data" / "deerflow.db"
    if not file.exists():
        return 0
    connection = connect(file, read_only=True)
    (count,) = connection.execute("SELECT count(*) FROM model_calls").fetchone()
    connection.close()
    return int(count)


async def survive(born: Zygote, home: Path, *deaths: dict[str, int]) -> int:
    """Die as told, resume, and come to the end; the number of deaths. Everything must be right."""
    await asyncio.to_thread(home.mkdir)
    kills = 0
    complaints: list[str] = []
    async with killer_harness(World(Order(str(home), []))) as harness:
        story = "family"
        for death in (*deaths, {}):
            before, known = recorded(home), len(read_ledger(home, "requests"))
            child = born.start(Order(str(home), [KIN], story=story, **death))
            kills += child.wait()
            complaints += asked_again(home, before, known)
            events = await events_of(harness, KIN)
            story = "" if events else "family"
            if events and events[-1].type == "run_ended":
                break
        complaints += await wrong(home, harness)
    assert complaints == [], deaths
    return kills


def asked_again(home: Path, before: int, known: int) -> list[str]:
    """Whether the process after these requests asked for more replies than were missing."""
    asked = len(read_ledger(home, "requests")) - known
    return [f"{before} of {TURNS} replies were there, {asked} asked for"] * (asked + before > TURNS)


async def wrong(home: Path, harness: Harness) -> list[str]:
    """What is wrong with the thread at its end."""
    events = await events_of(harness, KIN)
    messages, state = await messages_of(harness, KIN)
    answers = [m.text for m in messages if m.type == "tool" and m.name == "task"]
    usage: Any = events[-1].payload["usage"]
    told = Counter((e.type, e.payload["task_id"]) for e in events if e.type in TASK_EVENTS)
    once = {(kind, id_): 1 for kind in STATES for id_ in ("call_1_0", "call_1_1")}
    facts = {
        "seq": ([e.seq for e in events], list(range(1, len(events) + 1))),
        "answer": (messages[-1].text, ANSWER),
        "children's answers": (answers, ["Kid one is done.", "Kid two is done."]),
        "ledger": ({e["status"] for e in state["delegations"].values()}, {"completed"}),
        "usage": (usage["total"]["total"], PAID),
        "states of children": (dict(told), once),
    }
    found = [f"{name}: {is_} instead of {due}" for name, (is_, due) in facts.items() if is_ != due]
    return found + effects(home, events)


def effects(home: Path, events: list[Event]) -> list[str]:
    """Results that are told twice, and effects that happened twice or not at all."""
    texts: dict[str, list[str]] = {}
    for event in events:
        if event.type in ("message", "task_running"):
            message = event.payload["message"]
            texts.setdefault(str(message["id"]), []).append(str(message["content"]))
    found = [f"{key} is in the log twice" for key, each in texts.items() if len(each) > 1]
    unknown = sum(UNKNOWN in text for each in texts.values() for text in each)
    done = Counter(line["place"] for line in read_ledger(home, "effects"))
    found += [f"{place} happened {count} times" for place, count in done.items() if count > 1]
    if len(done) < EFFECTS - unknown:
        found.append(f"only {sorted(done)} happened, {unknown} unknown")
    return found


async def test_a_family_that_nobody_kills(born: Zygote, tmp_path: Path) -> None:
    assert await survive(born, tmp_path / "home") == 0


async def test_a_kill_at_each_touch_of_the_outside(
    born: Zygote, tmp_path: Path, scale: Scale
) -> None:
    kills = 0
    for touch in range(3, 120, scale(13, 1)):
        killed = await survive(born, tmp_path / str(touch), {"die_at_touch": touch})
        kills += killed
        if not killed:
            break
    assert kills > scale(2, 40)


async def test_a_kill_after_each_event(born: Zygote, tmp_path: Path, scale: Scale) -> None:
    kills = 0
    for event in range(4, 120, scale(13, 1)):
        killed = await survive(born, tmp_path / str(event), {"die_at_event": event})
        kills += killed
        if not killed:
            break
    assert kills > scale(2, 30)


async def test_several_kills_of_one_run(born: Zygote, tmp_path: Path, scale: Scale) -> None:
    for first in range(8, 30, scale(12, 2)):
        deaths = [{"die_at_touch": first}, {"die_at_event": 3}, {"die_at_touch": 4}]
        assert await survive(born, tmp_path / str(first), *deaths) == 3
