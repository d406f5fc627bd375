"""`deerflow users …`: accounts from the terminal of the machine that has the database."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from getpass import getpass
from pathlib import Path
from typing import TypeVar

import orjson

from deerflow.cli import output
from deerflow.cli.source import read
from deerflow.errors import UsageError
from deerflow.gateway.auth.apitokens import new_token
from deerflow.gateway.auth.passwords import Passwords, check_password
from deerflow.gateway.auth.people import email_of, new_person, person, set_active, set_role
from deerflow.storage.protocol import Accounts, AuditRow, UserRow
from deerflow.wiring.stores import open_stores

T = TypeVar("T")


def create(config: Path | None, email: str, role: str, *, from_stdin: bool) -> int:
    """Make an account; its password is asked for."""
    address, password = email_of(email), ask_password(from_stdin=from_stdin)

    async def work(accounts: Accounts) -> None:
        row = new_person(address, await Passwords().hash(password), role)
        await accounts.add_user(row)
        await _note(accounts, "user_created", row)

    _with_accounts(config, work)
    output.say(f"{address} can log in as {role}.")
    return 0


def show(config: Path | None, *, as_json: bool) -> int:
    """List accounts, oldest first."""
    rows = _with_accounts(config, lambda accounts: accounts.users())
    for row in rows:
        if as_json:
            fields = {"id": row.user_id, "email": row.email, "role": row.role}
            output.write_line(orjson.dumps(fields | {"active": row.active}))
        else:
            state = "" if row.active else "  locked"
            output.say(f"{row.user_id}  {row.role:5}  {output.one_line(row.email)}{state}")
    return 0


def activate(config: Path | None, name: str, *, active: bool) -> int:
    """Lock an account, or open it again."""

    async def work(accounts: Accounts) -> UserRow:
        row = await person(accounts, name)
        await set_active(accounts, row, active=active)
        await _note(accounts, "user_enabled" if active else "user_disabled", row)
        return row

    row = _with_accounts(config, work)
    done = "can log in again" if active else "is locked, its sessions and tokens have ended"
    output.say(f"{row.email} {done}.")
    return 0


def change_role(config: Path | None, name: str, role: str) -> int:
    """Make somebody admin or user."""

    async def work(accounts: Accounts) -> UserRow:
        row = await person(accounts, name)
        await set_role(accounts, row, role)
        await _note(accounts, "role_changed", row)
        return row

    row = _with_accounts(config, work)
    output.say(f"{row.email} is {role} now.")
    return 0


def set_password(config: Path | None, name: str, *, from_stdin: bool) -> int:
    """Set a new password; the account's sessions end."""
    password = ask_password(from_stdin=from_stdin)

    async def work(accounts: Accounts) -> UserRow:
        row = await person(accounts, name)
        await accounts.change_user(replace(row, password=await Passwords().hash(password)))
        await accounts.remove_tokens(row.user_id, kind="session")
        await accounts.clear_attempts(f"account:{row.email}")
        await _note(accounts, "password_changed", row)
        return row

    row = _with_accounts(config, work)
    output.say(f"{row.email} has a new password; open sessions have ended.")
    return 0


def make_token(
    config: Path | None, name: str, label: str, *, scopes: list[str], days: int | None
) -> int:
    """Make an API token and print it, once."""

    async def work(accounts: Accounts) -> str:
        row = await person(accounts, name)
        secret, _ = await new_token(accounts, row, label, scopes=scopes or None, days=days)
        await _note(accounts, "token_created", row)
        return secret

    output.say(_with_accounts(config, work))
    return 0


def ask_password(*, from_stdin: bool) -> str:
    """A password, from the terminal twice or from standard input.

    Raises:
        UsageError: no terminal, the two differ, or it is too short.
    """
    if from_stdin:
        password = sys.stdin.readline().rstrip("\r\n")
    elif sys.stdin is not None and sys.stdin.isatty():  # pyright: ignore[reportUnnecessaryComparison]  # closed
        password = getpass("Password: ")
        if getpass("Again: ") != password:
            raise UsageError("The two passwords differ.")
    else:
        raise UsageError(
            "There is no terminal to ask for a password.",
            cure="Send it on standard input with --password-stdin.",
        )
    check_password(password)
    return password


def _with_accounts(config: Path | None, work: Callable[[Accounts], Awaitable[T]]) -> T:
    loaded, _ = read(config)

    async def opened() -> T:
        async with open_stores(loaded) as storage:
            return await work(storage.accounts)

    return asyncio.run(opened())


async def _note(accounts: Accounts, action: str, row: UserRow) -> None:
    await accounts.note(AuditRow(time.time(), row.user_id, action, row.user_id, "terminal"))
