"""Webhooks: signed, repeated until they arrive, and never to inner networks."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from deerflow.config.storage import RuntimeConfig
from deerflow.errors import UsageError
from deerflow.runtime.webhooks import MOST_ATTEMPTS, Webhooks, call_for, signature, wait_after
from deerflow.storage.inmemory import InMemoryStorage
from deerflow.storage.protocol import Decision
from fakes.approving import ASK, Desk, call, guarded
from fakes.opened import USER, opened_runtime

HERE: dict[str, Any] = {"webhook_hosts": ["127.0.0.1"]}
STORES: list[dict[str, Any]] = [{"backend": "memory"}, {"backend": "sqlite"}]


@pytest.fixture(params=STORES, ids=["memory", "sqlite"])
def database(request: pytest.FixtureRequest) -> dict[str, Any]:
    return request.param


@dataclass
class Receiver:
    """Answers calls with the given statuses in turn, the last one for ever."""

    statuses: list[int] = field(default_factory=lambda: [200])
    calls: asyncio.Queue[tuple[dict[str, str], bytes]] = field(
        default_factory=asyncio.Queue[tuple[dict[str, str], bytes]]
    )
    url: str = ""

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        headers = {key.lower(): value for key, value in request.headers.items()}
        self.calls.put_nowait((headers, body))
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        return web.Response(status=status, headers={"location": self.url})


@asynccontextmanager
async def receiver(*statuses: int) -> AsyncGenerator[Receiver]:
    made = Receiver(list(statuses or (200,)))
    app = web.Application()
    app.router.add_post("/hook", made.answer)
    async with TestServer(app, host="127.0.0.1") as server:
        made.url = f"http://127.0.0.1:{server.port}/hook"
        yield made


async def test_the_end_of_a_run_is_told(tmp_path: Path, database: dict[str, Any]) -> None:
    async with (
        receiver() as heard,
        opened_runtime([{"text": "a"}], tmp_path, database=database, runtime=HERE) as here,
    ):
        options = {"webhook": heard.url, "metadata": {"k": 1}}
        run = await here.finish("1", options=options)
        async with asyncio.timeout(10):
            headers, body = await heard.calls.get()
        told = orjson.loads(body)
        assert (told["type"], told["run_id"], told["thread_id"]) == ("run.ended", run.run_id, "t")
        assert (told["status"], told["metadata"]) == ("success", {"k": 1})
        secret = await here.runtime.submissions.webhooks.secret()
        stamp = headers["webhook-timestamp"]
        assert headers["webhook-signature"] == signature(secret, headers["webhook-id"], stamp, body)
        assert (
            signature(secret, headers["webhook-id"], stamp, body + b" ")
            != headers["webhook-signature"]
        )


async def test_a_run_that_waits_for_a_human_is_told_twice(tmp_path: Path) -> None:
    desk = Desk()
    script = [{"calls": [call("delete", what="x")]}, {"text": "done"}]
    async with (
        receiver() as heard,
        opened_runtime(
            script, tmp_path, tools=desk.tools(), guardrails=guarded(ASK), runtime=HERE
        ) as here,
    ):
        run = await here.finish("1", options={"webhook": heard.url})
        async with asyncio.timeout(10):
            assert orjson.loads((await heard.calls.get())[1])["status"] == "interrupted"
            (row,) = await here.storage.approvals.list(USER, thread_key=run.thread_key)
            decision = Decision("approved", USER, row.created_at)
            await here.runtime.submissions.decide(USER, row.approval_id, decision)
            assert orjson.loads((await heard.calls.get())[1])["status"] == "success"


class Clock:
    """Seconds that tests move."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def outbox(here: Any, heard: Receiver, clock: Clock, **options: Any) -> tuple[Webhooks, str]:
    """An outbox of its own over the service's store, with one row that is due."""
    hooks = Webhooks(here.storage, RuntimeConfig.model_validate(options), clock=clock)
    run = await here.finish("1")
    row = call_for(await here.thread(), run.run_id, heard.url)
    assert row is not None
    await here.storage.deliveries.add(row)
    return hooks, run.run_id


async def test_calls_are_repeated_until_they_arrive(tmp_path: Path) -> None:
    clock = Clock()
    async with (
        receiver(500, 429, 302, 204) as heard,
        opened_runtime([{"text": "a"}], tmp_path) as here,
    ):
        hooks, run_id = await outbox(here, heard, clock, **HERE)
        storage: InMemoryStorage = here.storage  # pyright: ignore[reportAssignmentType]
        statuses: list[str] = []
        for _ in range(4):
            clock.now += 2e9  # later than whatever the store's own clock has written
            assert await hooks.tick() == 1
            (row,) = await storage.deliveries.of_run(run_id)
            statuses.append(row.status)
            if row.status == "pending":
                assert row.due_at > clock.now
                assert await hooks.tick() == 0
        assert statuses == ["pending", "pending", "pending", "done"]
        seen = [heard.calls.get_nowait() for _ in range(4)]
        assert len({headers["webhook-id"] for headers, _ in seen}) == 1
        assert len({headers["webhook-timestamp"] for headers, _ in seen}) == 4
        assert heard.calls.empty()


@pytest.mark.parametrize("statuses", [(410,), (500,)])
async def test_calls_are_given_up(tmp_path: Path, statuses: tuple[int, ...]) -> None:
    clock = Clock()
    async with receiver(*statuses) as heard, opened_runtime([{"text": "a"}], tmp_path) as here:
        hooks, run_id = await outbox(here, heard, clock, **HERE)
        tries = 0
        while True:
            clock.now += 2e9
            if not await hooks.tick():
                break
            tries += 1
        assert tries == (1 if statuses == (410,) else MOST_ATTEMPTS)
        (row,) = await here.storage.deliveries.of_run(run_id)
        assert row.status == "failed"


async def test_an_address_that_is_allowed_no_more_is_not_called(tmp_path: Path) -> None:
    clock = Clock()
    async with receiver() as heard, opened_runtime([{"text": "a"}], tmp_path) as here:
        hooks, run_id = await outbox(here, heard, clock)
        clock.now += 2e9
        assert await hooks.tick() == 1
        (row,) = await here.storage.deliveries.of_run(run_id)
        assert row.status == "failed"
        assert heard.calls.empty()


async def test_a_receiver_that_is_not_there_is_tried_again(tmp_path: Path) -> None:
    clock = Clock()
    async with opened_runtime([{"text": "a"}], tmp_path) as here:
        heard = Receiver(url="http://127.0.0.1:1/hook")
        hooks, run_id = await outbox(here, heard, clock, **HERE)
        clock.now += 2e9
        assert await hooks.tick() == 1
        (row,) = await here.storage.deliveries.of_run(run_id)
        assert (row.status, row.attempts) == ("pending", 1)


REFUSED = [
    "", "x", "ftp://example.org", "http://", "http://user:pass@example.org/", "//example.org",
    "http://127.0.0.1/", "http://[::1]/", "http://localhost:8000/", "http://169.254.169.254/latest",
    "https://10.0.0.1", "http://example.org:99999/", "https://example.org/" + "x" * 3000,
    "http://example.org/a b", "http://2130706433/",
]  # fmt: skip


@pytest.mark.parametrize("url", REFUSED)
def test_addresses_that_can_never_be_called_are_refused(url: str) -> None:
    with pytest.raises(UsageError):
        Webhooks(InMemoryStorage(), RuntimeConfig()).check(url)


def test_waits_grow_to_an_hour_and_last_a_day() -> None:
    assert 3 < wait_after(1) < 7
    assert 2_700 <= wait_after(40) <= 4_500
    whole = sum(min(5.0 * 2**n, 3600) for n in range(MOST_ATTEMPTS - 1))
    assert 20 * 3600 < whole < 28 * 3600


async def test_the_secret_stays(tmp_path: Path) -> None:
    async with opened_runtime([], tmp_path, database={"backend": "sqlite"}) as here:
        first = await here.runtime.submissions.webhooks.secret()
    async with opened_runtime([], tmp_path, database={"backend": "sqlite"}) as here:
        assert await here.runtime.submissions.webhooks.secret() == first
    assert first.startswith("whsec_")


async def test_a_configured_secret_signs(tmp_path: Path) -> None:
    async with opened_runtime([], tmp_path, runtime={"webhook_secret": "plain words"}) as here:
        assert await here.runtime.submissions.webhooks.secret() == "plain words"
    assert signature("plain words", "id", "1", b"{}") == signature(
        "whsec_" + base64.b64encode(b"plain words").decode(), "id", "1", b"{}"
    )
