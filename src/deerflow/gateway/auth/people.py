"""Accounts as people: e-mail addresses, new accounts, roles, the last admin."""

from __future__ import annotations

import re
import time
import uuid
from dataclasses import replace
from typing import Any

from deerflow.errors import ConflictError, NotFoundError, UsageError
from deerflow.storage.protocol import Accounts, UserRow

ROLES = ("admin", "user")

_EMAIL = re.compile(r"[^@\s\x00-\x1f\x7f]+@[^@\s\x00-\x1f\x7f.]+(\.[^@\s\x00-\x1f\x7f.]+)+")
_LONGEST_EMAIL = 254


def email_of(text: str) -> str:
    """An e-mail address in lower case.

    Raises:
        UsageError: it is none.
    """
    email = text.strip().lower()
    if len(email) > _LONGEST_EMAIL or not _EMAIL.fullmatch(email):
        raise UsageError("This is no e-mail address.", cure="Write it like name@example.org.")
    return email


def new_person(email: str, password: str | None, role: str, **data: Any) -> UserRow:
    """A row for a new account.

    Args:
        email: as `email_of` gives it.
        password: its hash, None for people who sign in elsewhere.
        role: admin or user.
        data: further facts, see UserRow.
    """
    return UserRow(uuid.uuid4().hex, email, password, role, time.time(), data=data)


async def person(accounts: Accounts, name: str) -> UserRow:
    """An account by e-mail address or id.

    Raises:
        NotFoundError: there is none.
    """
    found = await accounts.by_email(name.strip()) or await accounts.user(name)
    if found is None:
        raise NotFoundError(f"There is no account {name}.", cure="See `deerflow users list`.")
    return found


async def set_active(accounts: Accounts, row: UserRow, *, active: bool) -> None:
    """Lock an account, or open it again; a locked one loses its sessions and tokens.

    Raises:
        ConflictError: it is the last admin.
    """
    if not active:
        await _keep_an_admin(accounts, row)
    await accounts.change_user(replace(row, active=active))
    if not active:
        await accounts.remove_tokens(row.user_id)


async def set_role(accounts: Accounts, row: UserRow, role: str) -> None:
    """Change a role.

    Raises:
        UsageError: there is no such role.
        ConflictError: it is the last admin.
    """
    if role not in ROLES:
        raise UsageError(f"There is no role {role}.", cure=f"Choose one of {', '.join(ROLES)}.")
    if role != "admin":
        await _keep_an_admin(accounts, row)
    await accounts.change_user(replace(row, role=role))


async def _keep_an_admin(accounts: Accounts, row: UserRow) -> None:
    if row.role != "admin" or not row.active:
        return
    rows = await accounts.users(limit=1_000_000)
    if not any(r.role == "admin" and r.active and r.user_id != row.user_id for r in rows):
        raise ConflictError("This is the last admin.", cure="Make somebody else admin first.")
