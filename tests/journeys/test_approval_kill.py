"""P19: kill -9 between a decision and its call, and around the effect: never twice."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from deerflow.middlewares.dangling_tool_call import is_legal
from fakes.approving import (
    KILLED,
    KillingDesk,
    approving_harness,
    history,
    logged,
    rows,
    run,
    start_killed,
)


@pytest.mark.parametrize(
    ("moment", "effects", "said"),
    [
        ("decided", ["delete a"], "did delete a"),
        ("before", [], "Outcome unknown"),
        ("after", ["delete a"], "Outcome unknown"),
    ],
)
async def test_p19_a_kill_after_the_decision_does_nothing_twice(
    tmp_path: Path, moment: str, effects: list[str], said: str
) -> None:
    desk = KillingDesk(tmp_path)
    async with approving_harness(KILLED, tmp_path, desk) as harness:
        assert (await run(harness, "Go")).status == "interrupted"
    assert desk.effects == []

    assert start_killed(tmp_path, moment) == -signal.SIGKILL

    async with approving_harness(KILLED, tmp_path, desk) as harness:
        assert await rows(harness) == []  # the decision was durable
        result = await run(harness)
        assert (result.status, result.text) == ("success", "Done.")
        messages = await history(harness)
        assert is_legal(messages)
        assert messages[2].content.startswith(said)
        assert len(await logged(harness, "approval_requested")) == 1
        assert len(await logged(harness, "approval_decided")) == 1
    assert desk.effects == effects
