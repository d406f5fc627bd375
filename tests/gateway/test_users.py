from __future__ import annotations

import asyncio
import io
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from deerflow.errors import UsageError
from deerflow.gateway.commands import app
from deerflow.gateway.users import ask_password
from fakes.gateway import PASSWORD, gateway, write_config

runner = CliRunner()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DEER_FLOW_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    write_config(tmp_path, ["hello"])
    return tmp_path


def _users(*arguments: str, input: str | None = None) -> Result:
    return runner.invoke(app, ["users", *arguments], input=input)


def _create(email: str, *more: str) -> Result:
    return _users("create", email, "--password-stdin", *more, input=f"{PASSWORD}\n")


async def test_an_account_from_the_terminal_can_log_in_and_its_token_works(home: Path) -> None:
    made = await asyncio.to_thread(_create, "Root@Example.org", "--admin")
    arguments = ("token", "root@example.org", "--name", "ci", "--scope", "runs:read")
    token = await asyncio.to_thread(_users, *arguments)
    assert (made.exit_code, token.exit_code) == (0, 0)
    sqlite = {"backend": "sqlite"}
    async with gateway(home, auth=True, database=sqlite) as served:
        root = await served.login("root@example.org")
        me = (await root.get("/api/v1/auth/me")).json()
        bearer = await served.anonymous(X_Api_Key=token.output.strip())
        assert (await bearer.get("/api/v1/auth/me")).json()["id"] == me["id"]
        status = (await served.client.get("/api/v1/auth/setup-status")).json()
    assert me["system_role"] == "admin"
    assert status["needs_setup"] is False


def test_accounts_are_listed_locked_opened_and_changed(home: Path) -> None:
    _create("root@example.org", "--admin")
    _create("anna@example.org")
    assert _users("disable", "anna@example.org").exit_code == 0
    assert "anna@example.org  locked" in _users("list").output
    assert _users("enable", "ANNA@example.org").exit_code == 0
    assert _users("role", "anna@example.org", "admin").exit_code == 0
    listed = _users("list", "--json").output
    assert listed.count('"role":"admin"') == 2
    assert listed.count('"active":true') == 2
    assert _users("passwd", "anna@example.org", "--password-stdin", input="x" * 9).exit_code == 0


def test_the_last_admin_stays(home: Path) -> None:
    _create("root@example.org", "--admin")
    for arguments in (("disable", "root@example.org"), ("role", "root@example.org", "user")):
        result = _users(*arguments)
        assert result.exit_code == 1
        assert "last admin" in result.output
    assert "locked" not in _users("list").output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("create", "nonsense", "--password-stdin"), "e-mail address"),
        (("create", "a@example.org"), "no terminal"),
        (("disable", "nobody@example.org"), "no account"),
        (("token", "nobody@example.org"), "no account"),
    ],
)
def test_bad_usage_is_one_clear_line(home: Path, arguments: tuple[str, ...], says: str) -> None:
    result = _users(*arguments, input=f"{PASSWORD}\n")
    assert result.exit_code == 2
    assert says in result.output
    assert "Traceback" not in result.output


def test_the_same_address_twice_is_refused(home: Path) -> None:
    assert _create("anna@example.org").exit_code == 0
    again = _create("Anna@example.org")
    assert again.exit_code == 1
    assert "already" in again.output


def test_a_short_password_is_refused_before_anything_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("short\n"))
    with pytest.raises(UsageError, match="8 to 1024"):
        ask_password(from_stdin=True)
