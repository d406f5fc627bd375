"""Several processes on one database are one service, whichever of them a client talks to."""

from __future__ import annotations

import asyncio
import datetime
import signal
import time
from pathlib import Path

import pytest

from deerflow.gateway.frames.parts import CUT
from fakes.gateway import until
from fakes.postgres import need_postgres, served_schema
from fakes.processes import (
    DONE,
    SLOW,
    STEPS,
    Site,
    answer,
    begin,
    events,
    reached,
    server_and_workers,
    status,
    stream,
    two_servers,
)
from fakes.streams import text_of

CANCEL_SECONDS = 2.0
SECTIONS = {
    "scheduler": {"enabled": True, "min_once_delay_seconds": 1},
    "runtime": {"concurrent_runs": 2},  # so that four runs are at work in both processes
}


async def test_two_servers_on_one_home(tmp_path: Path) -> None:
    async with two_servers(tmp_path, **SECTIONS) as site:
        await journey(site)


async def test_a_server_without_a_worker_and_two_workers(tmp_path: Path) -> None:
    need_postgres()
    with served_schema() as database:
        async with server_and_workers(tmp_path, **SECTIONS, database=database) as site:
            await journey(site)


@pytest.mark.soak
async def test_each_minute_of_a_cron_is_started_once(tmp_path: Path) -> None:
    async with two_servers(tmp_path, **SECTIONS) as site:
        one, other = site.clients
        task = {"prompt": "Hello", "cron": "* * * * *"}
        made = (await one.post("/scheduled-tasks", json=task)).raise_for_status().json()

        async def starts() -> list[tuple[str, str]]:
            found = (await other.get(f"/scheduled-tasks/{made['id']}/runs")).json()
            return [(start["scheduled_for"], start["status"]) for start in found]

        async def has_started_thrice() -> bool:
            return [status for _, status in await starts()].count("success") >= 3

        await until(has_started_thrice, seconds=300)
        found = await starts()
    assert len({moment for moment, _ in found}) == len(found)


async def journey(site: Site) -> None:
    await _runs_through_either(site)
    await _cancel_through_the_other(site)
    await _a_task_starts_once(site)
    await _all_read_the_configuration_again(site)
    await _one_is_stopped_in_mid_run(site)


async def _runs_through_either(site: Site) -> None:
    one, other = site.clients
    assert await asyncio.gather(answer(one, "Hello"), answer(other, "Hello")) == ["Quick."] * 2
    path = await begin(one, "script:slow")
    frames = await stream(other, path)
    message = next(frame.data[0]["id"] for frame in frames if frame.event == "messages")
    assert text_of(frames, message) == SLOW
    assert frames[-1].event == "end"


async def _cancel_through_the_other(site: Site) -> None:
    one, other = site.clients
    path = await begin(one, "script:slow")
    reading = asyncio.create_task(stream(one, path))
    await reached(other, path, "running")
    begun = time.monotonic()
    (await other.post(f"{path}/cancel", params={"wait": "1"})).raise_for_status()
    took = time.monotonic() - begun
    frames = await reading
    assert frames[-1].event == "end"
    cut = [frame.data[0] for frame in frames if frame.event == "messages"]
    assert all(CUT in chunk["additional_kwargs"] for chunk in cut[-1:])
    assert await status(one, path) == "interrupted"
    assert took < CANCEL_SECONDS


async def _a_task_starts_once(site: Site) -> None:
    one, other = site.clients
    moment = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=3)
    task = {"prompt": "Hello", "run_at": moment.isoformat(), "title": "Once"}
    answered = await one.post("/scheduled-tasks", json=task)
    assert answered.status_code == 200, answered.text
    made = answered.json()

    async def starts() -> list[str]:
        found = await other.get(f"/scheduled-tasks/{made['id']}/runs")
        return [str(start["status"]) for start in found.raise_for_status().json()]

    async def has_ended() -> bool:
        return "success" in await starts()

    await until(has_ended)
    assert await starts() == ["success"]


async def _all_read_the_configuration_again(site: Site) -> None:
    site.configure("Renewed.")
    site.hang_up()
    for client in site.clients:

        async def is_renewed(client=client) -> bool:  # type: ignore[no-untyped-def]
            return await answer(client, "Hello") == "Renewed."

        await until(is_renewed)
    assert (
        await asyncio.gather(*(answer(site.clients[0], "Hello") for _ in range(6)))
        == ["Renewed."] * 6
    )


async def _one_is_stopped_in_mid_run(site: Site) -> None:
    """What it was at goes on in the other from its last step, and no call is made again."""
    one, other = site.clients
    paths = [await begin(one, "script:steps") for _ in range(4)]
    for path in paths:
        await reached(other, path, "running")
    leaver = site.executors[0]
    leaver.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(leaver.wait(), 42) == 0
    for path in paths:
        await reached(other, path, "success")
    logs = [await events(other, path) for path in paths]
    types = [[event["event_type"] for event in log] for log in logs]
    assert any("handed_over" in found for found in types)
    assert [found.count("tool_started") for found in types] == [STEPS] * 4
    assert all(DONE in str(log) for log in logs)
