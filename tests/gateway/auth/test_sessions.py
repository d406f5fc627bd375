from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from deerflow.gateway.auth import sessions as module
from deerflow.gateway.auth.apitokens import new_token
from deerflow.gateway.auth.people import new_person, set_active
from deerflow.gateway.auth.sessions import Sessions
from deerflow.storage.inmemory import InMemoryStorage
from deerflow.storage.protocol import Accounts, TokenKind, UserRow


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def anna() -> tuple[Accounts, UserRow]:
    accounts = InMemoryStorage().accounts
    row = new_person("anna@example.org", None, "user")
    await accounts.add_user(row)
    return accounts, row


@pytest.mark.parametrize(
    ("remember", "idle", "longest"),
    [
        (False, module.IDLE, module.LONGEST),
        (True, module.IDLE_REMEMBERED, module.LONGEST_REMEMBERED),
    ],
)
async def test_a_session_slides_while_it_is_used_and_ends_in_any_case(
    anna: tuple[Accounts, UserRow], remember: bool, idle: float, longest: float
) -> None:
    clock = Clock()
    sessions = Sessions(anna[0], clock=clock)
    opened = await sessions.open(anna[1], remember=remember)
    begun = clock.now
    while clock.now - begun + idle * 0.9 < longest:
        clock.now += idle * 0.9
        assert await sessions.find(opened.secret, "session") is not None
    clock.now = begun + longest + 1
    assert await sessions.find(opened.secret, "session") is None


@pytest.mark.parametrize(
    ("remember", "idle"), [(False, module.IDLE), (True, module.IDLE_REMEMBERED)]
)
async def test_a_session_that_nobody_uses_ends(
    anna: tuple[Accounts, UserRow], remember: bool, idle: float
) -> None:
    clock = Clock()
    sessions = Sessions(anna[0], clock=clock)
    opened = await sessions.open(anna[1], remember=remember)
    clock.now += idle + 1
    assert await sessions.find(opened.secret, "session") is None
    assert await anna[0].tokens(anna[1].user_id, "session") == []


async def test_what_another_process_ends_is_believed_for_seconds_only(
    anna: tuple[Accounts, UserRow],
) -> None:
    accounts, row = anna
    clock = Clock()
    here, there = Sessions(accounts, clock=clock), Sessions(accounts, clock=clock)
    opened = await here.open(row, remember=False)
    found = await here.find(opened.secret, "session")
    assert found is not None
    assert await there.find(opened.secret, "session") is not None
    await there.end(row.user_id, found.caller.token_id)
    assert await there.find(opened.secret, "session") is None
    clock.now += module.CACHE_SECONDS
    assert await here.find(opened.secret, "session") is None


async def test_a_changed_role_counts_within_seconds(anna: tuple[Accounts, UserRow]) -> None:
    accounts, row = anna
    clock = Clock()
    sessions = Sessions(accounts, clock=clock)
    opened = await sessions.open(row, remember=False)
    assert await sessions.find(opened.secret, "session") is not None
    await accounts.change_user(replace(row, role="admin"))
    clock.now += module.CACHE_SECONDS
    found = await sessions.find(opened.secret, "session")
    assert found is not None
    assert found.caller.role == "admin"


async def test_use_is_noted_once_a_minute(anna: tuple[Accounts, UserRow]) -> None:
    accounts, row = anna
    clock = Clock()
    sessions = Sessions(accounts, clock=clock)
    opened = await sessions.open(row, remember=False)
    used: set[float | None] = set()
    for _ in range(25):
        clock.now += 5
        await sessions.find(opened.secret, "session")
        used.add((await accounts.tokens(row.user_id, "session"))[0].used_at)
    assert len(used) == 3


@pytest.mark.parametrize("kind", ["session", "api"])
async def test_whoever_reads_on_is_told_when_another_process_ended_the_sign_in(
    anna: tuple[Accounts, UserRow], kind: TokenKind
) -> None:
    accounts, row = anna
    clock = Clock()
    sessions = Sessions(accounts, clock=clock, look=0.001)
    if kind == "session":
        secret = (await sessions.open(row, remember=False)).secret
    else:
        secret, _ = await new_token(accounts, row, "ci")
    over = asyncio.create_task(sessions.over(secret, kind))
    await asyncio.wait({over}, timeout=0.05)
    assert not over.done()
    await set_active(accounts, row, active=False)
    clock.now += module.CACHE_SECONDS
    await asyncio.wait_for(over, 10)
