"""Pruning leaves one whole state; the thread goes on from it as if nothing had happened."""

import random
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from fakes.twin_threads import Deltas, Pair, build

COUNTS = "SELECT (SELECT count(*) FROM checkpoints), (SELECT count(*) FROM checkpoint_writes)"


async def test_one_checkpoint_is_left_and_the_thread_goes_on(pair: Pair) -> None:
    for script in ("parallel", "", "overwrite", "parallel", ""):
        await pair.say(script)
    await pair.storage.saver.aprune([pair.key])

    assert await pair.rows(COUNTS) == [(1, 0)]
    await pair.compare_heads()
    await pair.reopen()
    await pair.compare_heads()
    await pair.say("parallel")
    await pair.compare_heads()


@pytest.mark.parametrize("seed", range(3))
async def test_any_life_goes_on_after_any_pruning(pair: Pair, seed: int, scale: Any) -> None:
    chance = random.Random(seed)
    for step in range(scale(15, 100)):
        if chance.random() < 0.3:
            await pair.storage.saver.aprune([pair.key])
        if chance.random() < 0.2:
            await pair.reopen()
        if await pair.waits():
            await pair.answer()
        elif step and chance.random() < 0.2:
            await pair.edit()
        else:
            await pair.say(chance.choice(["", "parallel", "overwrite", "remove", "ask"]))
        await pair.compare_heads()


async def test_a_question_that_waits_survives(pair: Pair) -> None:
    await pair.say("")
    await pair.say("ask")
    await pair.storage.saver.aprune([pair.key])
    await pair.reopen()

    assert (await pair.ours.aget_state(pair.config())).interrupts
    await pair.answer()
    await pair.compare_heads()


async def test_a_thread_that_is_being_worked_on_is_left_alone(pair: Pair) -> None:
    thread = await pair.storage.threads.ensure("ann", "t1")
    pair.key = thread.thread_key
    await pair.say("parallel")
    before = await pair.rows(COUNTS)
    await pair.storage.threads.start_run(pair.key, "r1", input={}, config={})
    await pair.storage.saver.aprune([pair.key])
    assert await pair.rows(COUNTS) == before

    await pair.storage.threads.end_run("r1", status="success", outcome=None)
    await pair.storage.saver.aprune([pair.key])
    assert await pair.rows(COUNTS) == [(1, 0)]


async def test_another_process_goes_on_from_the_pruned_state(pair: Pair) -> None:
    for _ in range(4):
        await pair.say("")
    other = pair.open()
    theirs = build(Deltas, other.saver)
    await theirs.aget_state(pair.config())
    await pair.storage.saver.aprune([pair.key])
    await theirs.ainvoke({"messages": [HumanMessage("on", id="on")]}, pair.config())
    ours = [m.id for m in (await pair.ours.aget_state(pair.config())).values["messages"]]
    await other.close()

    assert ours[-2] == "on"
    assert len(ours) == len((await pair.whole.aget_state(pair.config())).values["messages"]) + 2
