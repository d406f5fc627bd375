"""Accounts: people, what they hold, who tried."""

import asyncio

import pytest

from deerflow.errors import ConflictError
from deerflow.storage.protocol import AuditRow, Storage, TokenRow, UserRow

ANN = UserRow("u1", "Ann@Example.org", "hash", "admin", 1.0, data={"needs_setup": False})
BOB = UserRow("u2", "bob@example.org", None, "user", 2.0)


async def test_an_account_is_found_by_id_and_by_e_mail_in_any_case(storage: Storage) -> None:
    await storage.accounts.add_user(BOB)
    await storage.accounts.add_user(ANN)

    kept = await storage.accounts.user("u1")
    assert kept is not None
    assert (kept.email, kept.password, kept.role) == ("ann@example.org", "hash", "admin")
    assert kept.active is True
    assert kept.data == {"needs_setup": False}
    assert await storage.accounts.by_email("ANN@example.ORG") == kept
    assert await storage.accounts.user("nobody") is None
    assert await storage.accounts.by_email("nobody@example.org") is None
    assert [row.user_id for row in await storage.accounts.users()] == ["u1", "u2"]
    assert [row.user_id for row in await storage.accounts.users(limit=1, offset=1)] == ["u2"]


async def test_an_e_mail_belongs_to_one_account(storage: Storage) -> None:
    await storage.accounts.add_user(ANN)
    await storage.accounts.add_user(BOB)

    with pytest.raises(ConflictError, match="e-mail"):
        await storage.accounts.add_user(UserRow("u3", "ANN@example.org", None, "user", 3.0))
    with pytest.raises(ConflictError, match="id"):
        await storage.accounts.add_user(UserRow("u1", "new@example.org", None, "user", 3.0))
    with pytest.raises(ConflictError, match="e-mail"):
        await storage.accounts.change_user(UserRow("u2", "ann@example.org", None, "user", 2.0))
    bob = await storage.accounts.user("u2")
    assert bob is not None
    assert bob.email == "bob@example.org"


async def test_an_account_is_changed(storage: Storage) -> None:
    await storage.accounts.add_user(BOB)
    changed = UserRow("u2", "Robert@example.org", "new", "admin", 2.0, False, {"a": [1]})

    await storage.accounts.change_user(changed)
    await storage.accounts.change_user(UserRow("u9", "none@example.org", None, "user", 9.0))

    kept = await storage.accounts.user("u2")
    assert kept == UserRow("u2", "robert@example.org", "new", "admin", 2.0, False, {"a": [1]})
    assert await storage.accounts.by_email("bob@example.org") is None
    assert await storage.accounts.user("u9") is None


async def test_there_is_one_first_admin(storage: Storage) -> None:
    await storage.accounts.add_user(BOB)
    assert not await storage.accounts.has_admin()
    rows = [UserRow(f"a{i}", f"a{i}@example.org", "h", "admin", 5.0) for i in range(5)]

    tried = await asyncio.gather(
        *(storage.accounts.add_user(row, first=True) for row in rows), return_exceptions=True
    )

    assert sum(1 for result in tried if result is None) == 1
    assert all(isinstance(result, ConflictError) for result in tried if result is not None)
    assert await storage.accounts.has_admin()
    assert len(await storage.accounts.users()) == 2


async def test_an_admin_who_is_locked_out_is_no_way_in_for_a_first_one(storage: Storage) -> None:
    await storage.accounts.add_user(UserRow("a", "a@example.org", "h", "admin", 1.0, active=False))

    assert not await storage.accounts.has_admin()
    with pytest.raises(ConflictError, match="administrator"):
        await storage.accounts.add_user(ANN, first=True)


async def test_the_first_tie_of_an_identity_counts(storage: Storage) -> None:
    await storage.accounts.add_user(ANN)
    await storage.accounts.add_user(BOB)

    await storage.accounts.link("idp", "sub", "u2")
    await storage.accounts.link("idp", "sub", "u1")

    found = await storage.accounts.linked("idp", "sub")
    assert found is not None
    assert found.user_id == "u2"
    assert await storage.accounts.linked("other", "sub") is None


async def test_a_session_gives_its_user_until_it_ends_or_the_account_does(storage: Storage) -> None:
    await storage.accounts.add_user(BOB)
    row = TokenRow("t1", "u2", "session", b"\x01" * 32, "web", 10.0, 20.0, None, {"scopes": ["x"]})
    await storage.accounts.add_token(row)

    assert await storage.accounts.token(row.hash, now=15.0) == (row, BOB)
    assert await storage.accounts.token(b"\x02" * 32, now=15.0) is None
    assert await storage.accounts.token(row.hash, now=20.0) is None
    await storage.accounts.change_user(
        UserRow("u2", "bob@example.org", None, "user", 2.0, active=False)
    )
    assert await storage.accounts.token(row.hash, now=15.0) is None


async def test_a_token_of_nobody_is_for_setup_and_login_alone(storage: Storage) -> None:
    setup = TokenRow("s", "", "setup", b"s" * 32)
    api = TokenRow("a", "gone", "api", b"a" * 32)
    await storage.accounts.add_token(setup)
    await storage.accounts.add_token(api)

    assert await storage.accounts.token(setup.hash, now=1.0) == (setup, None)
    assert await storage.accounts.token(api.hash, now=1.0) is None


async def test_a_token_is_entered_once(storage: Storage) -> None:
    await storage.accounts.add_token(TokenRow("t", "u", "api", b"a" * 32))
    for row in (TokenRow("t", "u", "api", b"b" * 32), TokenRow("x", "u", "api", b"a" * 32)):
        with pytest.raises(ConflictError):
            await storage.accounts.add_token(row)


async def test_expired_tokens_are_cleared_away(storage: Storage) -> None:
    for number, expires_at in enumerate((5.0, 20.0, None)):
        row = TokenRow(f"t{number}", "u", "session", bytes([number]) * 32, expires_at=expires_at)
        await storage.accounts.add_token(row)
    await storage.accounts.add_token(TokenRow("new", "u", "session", b"n" * 32, created_at=10.0))

    left = await storage.accounts.tokens("u", "session")
    assert [row.token_id for row in left] == ["t1", "t2", "new"]


async def test_tokens_are_listed_used_and_removed(storage: Storage) -> None:
    for index in range(3):
        await storage.accounts.add_token(
            TokenRow(f"t{index}", "u1", "api", bytes([index]) * 32, f"n{index}", 3.0 - index)
        )
    await storage.accounts.add_token(TokenRow("s", "u1", "session", b"s" * 32))
    await storage.accounts.add_token(TokenRow("o", "u2", "api", b"o" * 32))
    await storage.accounts.use_token("t1", 99.0)

    found = await storage.accounts.tokens("u1", "api")
    assert [(row.token_id, row.used_at) for row in found] == [
        ("t2", None), ("t1", 99.0), ("t0", None),
    ]  # fmt: skip
    assert await storage.accounts.remove_tokens("u2", token_id="t1") == 0
    assert await storage.accounts.remove_tokens("u1", token_id="t1") == 1
    assert await storage.accounts.remove_tokens("u1", kind="session") == 1
    assert await storage.accounts.remove_tokens("u1") == 2
    assert len(await storage.accounts.tokens("u2", "api")) == 1


async def test_a_token_that_works_once_goes_to_one_caller(storage: Storage) -> None:
    row = TokenRow("l", "", "login", b"l" * 32, expires_at=10.0, data={"state": "x"})
    late = TokenRow("m", "", "login", b"m" * 32, expires_at=1.0)
    await storage.accounts.add_token(row)
    await storage.accounts.add_token(late)

    taken = await asyncio.gather(
        *(storage.accounts.take_token(row.hash, now=5.0) for _ in range(4))
    )

    assert [found for found in taken if found is not None] == [row]
    assert await storage.accounts.take_token(late.hash, now=5.0) is None


async def test_failed_logins_are_counted_and_forgotten(storage: Storage) -> None:
    for at in (100.0, 110.0, 120.0):
        await storage.accounts.note_attempt("1.2.3.4", at)
    await storage.accounts.note_attempt("ann", 115.0)

    assert await storage.accounts.attempts("1.2.3.4", since=110.0) == 2
    await storage.accounts.clear_attempts("1.2.3.4")
    assert await storage.accounts.attempts("1.2.3.4", since=0.0) == 0
    assert await storage.accounts.attempts("ann", since=0.0) == 1
    await storage.accounts.note_attempt("bob", 115.0 + 86_401)
    assert await storage.accounts.attempts("ann", since=0.0) == 0


async def test_the_audit_gives_the_newest_first(storage: Storage) -> None:
    await storage.accounts.note(AuditRow(1.0, "u1", "login", "t", "1.2.3.4", {"ok": True}))
    await storage.accounts.note(AuditRow(3.0, "u2", "logout"))
    await storage.accounts.note(AuditRow(3.0, "u1", "delete"))

    assert [row.action for row in await storage.accounts.audit()] == ["delete", "logout", "login"]
    assert len(await storage.accounts.audit(limit=2)) == 2
    only = await storage.accounts.audit(user_id="u1")
    assert only[-1] == AuditRow(1.0, "u1", "login", "t", "1.2.3.4", {"ok": True})
    assert len(only) == 2
