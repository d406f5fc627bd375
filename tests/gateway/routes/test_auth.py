from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from deerflow.gateway.auth import limits
from deerflow.gateway.auth.access import Access
from deerflow.gateway.auth.people import set_active
from deerflow.gateway.auth.setup import setup_token
from deerflow.gateway.config import GatewayConfig
from fakes.gateway import PASSWORD, Served, gateway
from fakes.harness import scripted_config

AUTH = "/api/v1/auth"
ADMIN = {"email": "root@example.org", "password": PASSWORD}
FAR = "203.0.113.9"


async def _initialize(served: Served, client: httpx.AsyncClient, **more: str) -> httpx.Response:
    return await client.post(f"{AUTH}/initialize", json={**ADMIN, **more})


async def test_the_first_admin_is_made_from_this_machine_and_is_signed_in(tmp_path: Path) -> None:
    async with gateway(tmp_path, auth=True) as served:
        before = (await served.client.get(f"{AUTH}/setup-status")).json()
        answer = await _initialize(served, served.client)
        me = (await served.client.get(f"{AUTH}/me")).json()
        after = (await served.client.get(f"{AUTH}/setup-status")).json()
        again = await _initialize(served, await served.anonymous(), email="second@example.org")
        audit = await Access.of(served.gateway).accounts.audit()
    assert before == {"needs_setup": True, "registration_enabled": True}
    assert answer.status_code == 201
    assert (me["email"], me["system_role"], me["needs_setup"]) == (
        "root@example.org",
        "admin",
        False,
    )
    assert after == {"needs_setup": False, "registration_enabled": False}
    assert again.status_code == 409
    assert again.json()["detail"]["code"] == "system_already_initialized"
    assert [row.action for row in audit] == ["initialize"]


async def test_two_first_admins_at_once_have_one_winner(tmp_path: Path) -> None:
    async with gateway(tmp_path, auth=True) as served:
        clients = [await served.anonymous() for _ in range(4)]
        answers = await asyncio.gather(
            *(_initialize(served, c, email=f"a{i}@example.org") for i, c in enumerate(clients))
        )
        rows = await Access.of(served.gateway).accounts.users()
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409]
    assert len(rows) == 1


@pytest.mark.parametrize(
    "headers",
    [{"X_Forwarded_For": "127.0.0.1"}, {"Forwarded": "for=127.0.0.1"}, {"X_Real_Ip": "127.0.0.1"}],
)
async def test_a_proxy_on_this_machine_does_not_count_as_this_machine(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    async with gateway(tmp_path, auth=True) as served:
        answer = await _initialize(served, await served.anonymous(**headers))
        assert answer.status_code == 403
        assert not await Access.of(served.gateway).accounts.has_admin()


async def test_a_page_whose_name_leads_here_makes_no_account(tmp_path: Path) -> None:
    rebound = {"Host": "evil.example.org", "Origin": "http://evil.example.org"}
    async with gateway(tmp_path, auth=True) as served:
        for path in ("initialize", "register"):
            answer = await served.client.post(f"{AUTH}/{path}", json=ADMIN, headers=rebound)
            assert answer.status_code == 403
        assert await Access.of(served.gateway).accounts.users() == []


async def test_from_elsewhere_the_setup_token_works_once(tmp_path: Path) -> None:
    async with gateway(tmp_path, auth=True) as served:
        token = await setup_token(Access.of(served.gateway).accounts)
        far = await served.anonymous(address=FAR)
        without = await _initialize(served, far)
        wrong = await _initialize(served, far, token="guess")
        weak = await _initialize(served, far, token=token, password="short")
        good = await _initialize(served, far, token=token)
        later = await setup_token(Access.of(served.gateway).accounts)
        page = (await served.client.get(f"{AUTH}/setup-status")).json()
    assert [a.status_code for a in (without, wrong, weak, good)] == [403, 403, 422, 201]
    assert later == ""
    assert page["needs_setup"] is False


async def test_login_sets_the_cookies_that_clients_expect(tmp_path: Path) -> None:
    async with gateway(tmp_path, auth=True) as served:
        await served.user("anna@example.org")
        client = await served.anonymous()
        form = {"username": " Anna@Example.org ", "password": PASSWORD}
        answer = await client.post(f"{AUTH}/login/local", data=form)
        kept = await client.post(f"{AUTH}/login/local", data={**form, "remember_me": "true"})
    cookies = {c.split("=")[0]: c.lower() for c in answer.headers.get_list("set-cookie")}
    assert answer.json() == {"needs_setup": False}
    assert "httponly" in cookies["access_token"]
    assert "samesite=lax" in cookies["access_token"]
    assert "httponly" not in cookies["csrf_token"]
    assert "samesite=strict" in cookies["csrf_token"]
    assert all("max-age" not in text and "secure" not in text for text in cookies.values())
    assert all("max-age=7776000" in c.lower() for c in kept.headers.get_list("set-cookie"))
    assert answer.headers["cache-control"] == "no-store"


async def test_over_https_the_cookies_are_for_https_alone(tmp_path: Path) -> None:
    process = GatewayConfig(proxies=("10.0.0.1",))
    async with gateway(tmp_path, process=process) as served:
        await served.user("anna@example.org")
        for address, secure in (("10.0.0.1", True), (FAR, False)):
            client = await served.anonymous(address=address, X_Forwarded_Proto="https")
            form = {"username": "anna@example.org", "password": PASSWORD}
            answer = await client.post(f"{AUTH}/login/local", data=form)
            cookies = answer.headers.get_list("set-cookie")
            assert [("secure" in c.lower()) for c in cookies] == [secure, secure]


async def test_wrong_unknown_and_locked_are_told_apart_by_nobody(tmp_path: Path) -> None:
    async with gateway(tmp_path, auth=True) as served:
        await served.user("anna@example.org")
        await served.user("gone@example.org")
        accounts = Access.of(served.gateway).accounts
        row = await accounts.by_email("gone@example.org")
        assert row is not None
        await set_active(accounts, row, active=False)
        answers = [
            await served.client.post(
                f"{AUTH}/login/local", data={"username": name, "password": password}
            )
            for name, password in (
                ("anna@example.org", "wrong password"),
                ("nobody@example.org", PASSWORD),
                ("gone@example.org", PASSWORD),
            )
        ]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.content for answer in answers}) == 1
    assert answers[0].json()["detail"]["code"] == "invalid_credentials"
    assert "set-cookie" not in answers[0].headers


async def test_failed_logins_are_limited_per_account_and_survive_a_restart(tmp_path: Path) -> None:
    sqlite = {"backend": "sqlite"}
    right = {"username": "anna@example.org", "password": PASSWORD}
    wrong = {"username": "anna@example.org", "password": "wrong password"}
    async with gateway(tmp_path, auth=True, database=sqlite) as served:
        await served.user("anna@example.org")
        answers = [
            await served.client.post(f"{AUTH}/login/local", data=wrong)
            for _ in range(limits.PER_ACCOUNT + 1)
        ]
    async with gateway(tmp_path, auth=True, database=sqlite) as served:
        locked = await served.client.post(f"{AUTH}/login/local", data=right)
        await Access.of(served.gateway).limits.succeeded("anna@example.org")
        free = await served.client.post(f"{AUTH}/login/local", data=right)
    assert [a.status_code for a in answers] == [401] * limits.PER_ACCOUNT + [429]
    assert answers[-1].headers["retry-after"]
    assert (locked.status_code, free.status_code) == (429, 200)


async def test_failed_logins_at_once_do_not_pass_together(tmp_path: Path) -> None:
    async with gateway(tmp_path, auth=True) as served:
        wrong = {"username": "anna@example.org", "password": "wrong password"}
        answers = await asyncio.gather(
            *(served.client.post(f"{AUTH}/login/local", data=wrong) for _ in range(20))
        )
    codes = [answer.status_code for answer in answers]
    assert codes.count(401) <= limits.PER_ACCOUNT
    assert set(codes) == {401, 429}


async def test_guesses_for_many_accounts_at_once_do_not_pass_together(tmp_path: Path) -> None:
    async with gateway(tmp_path, auth=True) as served:
        answers = await asyncio.gather(
            *(
                served.client.post(
                    f"{AUTH}/login/local", data={"username": f"{i}@example.org", "password": "x"}
                )
                for i in range(limits.PER_ADDRESS + 20)
            )
        )
        later = await served.anonymous(address=FAR)
        other = {"username": "anna@example.org", "password": "x"}
        assert (await later.post(f"{AUTH}/login/local", data=other)).status_code == 401
    codes = [answer.status_code for answer in answers]
    assert codes.count(401) == limits.PER_ADDRESS
    assert set(codes) == {401, 429}


async def test_failed_logins_are_limited_per_address(tmp_path: Path) -> None:
    async with gateway(tmp_path, auth=True) as served:
        anna = await served.user("anna@example.org")
        access = Access.of(served.gateway)
        for _ in range(limits.PER_ADDRESS):
            await access.limits.failed(FAR)
        right = {"username": "anna@example.org", "password": PASSWORD}
        far = await (await served.anonymous(address=FAR)).post(f"{AUTH}/login/local", data=right)
        near = await served.client.post(f"{AUTH}/login/local", data=right)
        assert (await anna.get(f"{AUTH}/me")).status_code == 200
    assert (far.status_code, near.status_code) == (429, 200)


async def test_a_page_of_another_site_cannot_sign_anybody_in(tmp_path: Path) -> None:
    async with gateway(tmp_path, auth=True) as served:
        await served.user("anna@example.org")
        right = {"username": "anna@example.org", "password": PASSWORD}
        codes = [
            (
                await served.client.post(
                    f"{AUTH}/login/local", data=right, headers={"Origin": origin}
                )
            ).status_code
            for origin in ("https://evil.example.org", "null", "http://[", "http://127.0.0.1:2026")
        ]
        other = await served.client.post(
            f"{AUTH}/initialize", json=ADMIN, headers={"Origin": "https://evil.example.org"}
        )
    assert codes == [403, 403, 403, 200]
    assert other.status_code == 403


async def test_registration_closes_with_the_first_admin(tmp_path: Path) -> None:
    new = {"email": "ben@example.org", "password": PASSWORD}
    async with gateway(tmp_path, auth=True) as served:
        far = await (await served.anonymous(address=FAR)).post(f"{AUTH}/register", json=new)
        early = await (await served.anonymous()).post(f"{AUTH}/register", json=new)
        twice = await (await served.anonymous()).post(f"{AUTH}/register", json=new)
        await _initialize(served, served.client)
        late = await (await served.anonymous()).post(
            f"{AUTH}/register", json={**new, "email": "carl@example.org"}
        )
    assert (far.status_code, far.json()["detail"]["code"]) == (403, "registration_disabled")
    assert (early.status_code, early.json()["system_role"]) == (201, "user")
    assert (twice.status_code, twice.json()["detail"]["code"]) == (409, "email_already_exists")
    assert (late.status_code, late.json()["detail"]["code"]) == (403, "registration_disabled")


async def test_registration_stays_open_when_configured(tmp_path: Path) -> None:
    new = {"email": "ben@example.org", "password": PASSWORD}
    config = scripted_config([], auth={"local": {"allow_registration": True}})
    async with gateway(tmp_path, auth=True, config=config) as served:
        await _initialize(served, served.client)
        client = await served.anonymous(address=FAR)
        assert (await client.post(f"{AUTH}/register", json=new)).status_code == 201
        assert (await client.get(f"{AUTH}/me")).json()["system_role"] == "user"


@pytest.mark.parametrize(
    "body",
    [
        {"email": "no address", "password": PASSWORD},
        {"email": "a@b", "password": PASSWORD},
        {"email": "ben@example.org", "password": "short"},
        {"email": "ben@example.org", "password": "x" * 1025},
        {"email": "ben@example.org"},
    ],
)
async def test_bad_accounts_are_refused_and_no_password_is_repeated(
    tmp_path: Path, body: dict[str, str]
) -> None:
    async with gateway(tmp_path, auth=True) as served:
        answer = await served.client.post(f"{AUTH}/register", json=body)
        assert await Access.of(served.gateway).accounts.users() == []
    assert answer.status_code == 422
    assert answer.json()["code"] == "bad_input"
    assert body.get("password", PASSWORD) not in answer.text


async def test_a_new_password_ends_every_session_but_gives_this_browser_a_new_one(
    tmp_path: Path,
) -> None:
    new = "another horse battery staple"
    async with gateway(tmp_path, auth=True) as served:
        anna = await served.user("anna@example.org")
        other = await served.login("anna@example.org")
        await other.get(f"{AUTH}/me")
        old = anna.cookies["access_token"]
        wrong = await anna.post(
            f"{AUTH}/change-password", json={"current_password": "x" * 9, "new_password": new}
        )
        change = {"current_password": PASSWORD, "new_password": new, "new_email": "a@example.org"}
        answer = await anna.post(f"{AUTH}/change-password", json=change)
        mine, theirs = await anna.get(f"{AUTH}/me"), await other.get(f"{AUTH}/me")
        again = await served.login("a@example.org", password=new)
        assert (await again.get(f"{AUTH}/me")).status_code == 200
    assert wrong.json()["detail"]["code"] == "invalid_credentials"
    assert answer.status_code == 200
    assert anna.cookies["access_token"] != old
    assert mine.json()["email"] == "a@example.org"
    assert theirs.status_code == 401


async def test_logout_ends_the_session_at_once(tmp_path: Path) -> None:
    async with gateway(tmp_path, auth=True) as served:
        anna = await served.user("anna@example.org")
        secret = anna.cookies["access_token"]
        assert (await anna.get(f"{AUTH}/me")).status_code == 200
        answer = await anna.post(f"{AUTH}/logout")
        thief = await served.anonymous()
        thief.cookies.set("access_token", secret, domain="127.0.0.1")
        stolen = await thief.get(f"{AUTH}/me")
    assert answer.status_code == 200
    assert "access_token" not in anna.cookies
    assert stolen.status_code == 401


async def test_a_locked_account_loses_its_sessions_within_seconds(tmp_path: Path) -> None:
    async with gateway(tmp_path, auth=True) as served:
        anna = await served.user("anna@example.org")
        accounts = Access.of(served.gateway).accounts
        row = await accounts.by_email("anna@example.org")
        assert row is not None
        await set_active(accounts, row, active=False)
        assert (await anna.get(f"{AUTH}/me")).status_code == 401
