from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from deerflow.gateway.auth.access import Access
from deerflow.gateway.config import GatewayConfig
from deerflow.gateway.routes.oidc import local_path
from fakes.gateway import PASSWORD, Served, gateway
from fakes.harness import scripted_config
from fakes.oidc_provider import CLIENT, SECRET, OidcFake

AUTH = "/api/v1/auth"


@asynccontextmanager
async def _served(
    home: Path, *, process: GatewayConfig | None = None, **over: Any
) -> AsyncGenerator[tuple[Served, OidcFake]]:
    async with OidcFake() as fake:
        entry = {"issuer": fake.issuer, "client_id": CLIENT, "client_secret": SECRET, **over}
        oidc = {"enabled": True, "providers": {"corp": {"display_name": "Corp", **entry}}}
        process = process or GatewayConfig()
        config = scripted_config([], auth={"oidc": oidc})
        async with gateway(home, process=process, config=config) as served:
            yield served, fake


async def _sign_in(
    served: Served, fake: OidcFake, client: httpx.AsyncClient | None = None, **over: str
) -> tuple[httpx.AsyncClient, httpx.Response]:
    """There and back in one browser; its client and the last answer."""
    client = client or await served.anonymous()
    there = await client.get(f"{AUTH}/oauth/corp", params={"next": "/workspace/chats"})
    assert there.status_code == 302, there.text
    return client, await client.get(fake.consent(there.headers["location"], **over))


async def test_somebody_new_signs_in_and_is_the_same_person_next_time(tmp_path: Path) -> None:
    async with _served(tmp_path) as (served, fake):
        client, answer = await _sign_in(served, fake)
        me = (await client.get(f"{AUTH}/me")).json()
        fake.claims["email"] = "renamed@example.org"  # the subject counts, not the address
        again, _ = await _sign_in(served, fake)
        same = (await again.get(f"{AUTH}/me")).json()
        logout = await client.post(f"{AUTH}/logout")
    assert (answer.status_code, answer.headers["location"]) == (303, "/workspace/chats")
    assert (me["email"], me["system_role"], me["oauth_provider"]) == (
        "anna@example.org",
        "user",
        "corp",
    )
    assert same == me
    assert logout.status_code == 200
    assert fake.requests.count("/.well-known/openid-configuration") == 1


@pytest.mark.parametrize(
    ("method", "proof"), [("client_secret_basic", "basic"), ("client_secret_post", "post")]
)
async def test_the_client_proves_itself_as_configured(
    tmp_path: Path, method: str, proof: str
) -> None:
    async with _served(tmp_path, token_endpoint_auth_method=method) as (served, fake):
        _, answer = await _sign_in(served, fake)
    assert answer.headers["location"] == "/workspace/chats"
    assert fake.proofs == [proof]


async def test_the_way_there_has_challenge_nonce_and_state_that_never_repeat(
    tmp_path: Path,
) -> None:
    async with _served(tmp_path) as (served, _):
        asked = [
            httpx.URL((await served.client.get(f"{AUTH}/oauth/corp")).headers["location"]).params
            for _ in range(2)
        ]
    for name in ("state", "nonce", "code_challenge"):
        assert len({params[name] for params in asked}) == 2
    assert asked[0]["redirect_uri"] == f"http://127.0.0.1:2026{AUTH}/callback/corp"


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://evil.example.org"},
        {"aud": "somebody else"},
        {"aud": [CLIENT, "other"]},
        {"aud": [CLIENT, "other"], "azp": "other"},
        {"azp": "other"},
        {"nonce": "of another attempt"},
        {"nonce": None},
        {"exp": 1_000_000_000},
        {"exp": None},
        {"sub": None},
        {"iat": 99_999_999_999},
    ],
)
async def test_a_token_that_is_not_for_this_attempt_signs_nobody_in(
    tmp_path: Path, claims: dict[str, Any]
) -> None:
    async with _served(tmp_path) as (served, fake):
        fake.claims = claims
        client, answer = await _sign_in(served, fake)
        assert (await client.get(f"{AUTH}/me")).status_code == 401
        assert await Access.of(served.gateway).accounts.users() == []
    assert answer.headers["location"] == "/login?error=provider_failed"
    assert "access_token" not in client.cookies


@pytest.mark.parametrize("broken", ["none", "HS256", "foreign", "code", "issuer"])
async def test_a_token_that_is_not_signed_by_the_provider_signs_nobody_in(
    tmp_path: Path, broken: str
) -> None:
    async with _served(tmp_path) as (served, fake):
        if broken in ("none", "HS256"):
            fake.algorithm = broken
        fake.foreign_key = broken == "foreign"
        fake.refuse_code = broken == "code"
        if broken == "issuer":
            fake.issuer_told = "https://evil.example.org"
            answer = await served.client.get(f"{AUTH}/oauth/corp")
        else:
            _, answer = await _sign_in(served, fake)
        assert await Access.of(served.gateway).accounts.users() == []
    assert answer.headers["location"] == "/login?error=provider_failed"


async def test_a_new_key_of_the_provider_is_fetched_but_not_for_every_bad_token(
    tmp_path: Path,
) -> None:
    async with _served(tmp_path) as (served, fake):
        await _sign_in(served, fake)
        fake.foreign_key = True
        for _ in range(3):
            await _sign_in(served, fake)
        assert fake.requests.count("/keys") == 1


async def test_another_browser_a_used_state_and_a_made_up_state_sign_nobody_in(
    tmp_path: Path,
) -> None:
    async with _served(tmp_path) as (served, fake):
        victim, other = await served.anonymous(), await served.anonymous()
        there = await other.get(f"{AUTH}/oauth/corp")
        back = fake.consent(there.headers["location"])
        elsewhere = await victim.get(back)
        used = await other.get(back)
        _, made_up = await _sign_in(served, fake, state="made up")
        _, refused = await _sign_in(served, fake, error="access_denied")
    for answer in (elsewhere, used, made_up):
        assert answer.headers["location"] == "/login?error=state_invalid"
    assert refused.headers["location"] == "/login?error=provider_refused"
    assert "access_token" not in victim.cookies


@pytest.mark.parametrize(
    ("over", "claims", "reason"),
    [
        ({}, {"email_verified": False}, "email_not_verified"),
        ({}, {"email_verified": None}, "email_not_verified"),
        ({}, {"email": None}, "email_missing"),
        ({"allowed_email_domains": ["corp.example"]}, {}, "domain_not_allowed"),
        (
            {"allowed_email_domains": ["example.org"]},
            {"email": "a@evil-example.org"},
            "domain_not_allowed",
        ),
        ({"auto_create_users": False}, {}, "user_not_found"),
    ],
)
async def test_who_is_not_allowed_is_told_why(
    tmp_path: Path, over: dict[str, Any], claims: dict[str, Any], reason: str
) -> None:
    async with _served(tmp_path, **over) as (served, fake):
        fake.claims = claims
        _, answer = await _sign_in(served, fake)
        assert await Access.of(served.gateway).accounts.users() == []
    assert answer.headers["location"] == f"/login?error={reason}"


async def test_admins_by_configuration_need_a_verified_address(tmp_path: Path) -> None:
    admins = {"admin_emails": ["Anna@example.org"], "require_verified_email": False}
    async with _served(tmp_path, **admins) as (served, fake):
        fake.claims["email_verified"] = False
        client, _ = await _sign_in(served, fake)
        unproved = (await client.get(f"{AUTH}/me")).json()["system_role"]
        fake.claims["email_verified"] = True
        client, _ = await _sign_in(served, fake)
        proved = (await client.get(f"{AUTH}/me")).json()["system_role"]
    assert (unproved, proved) == ("user", "admin")


async def test_an_account_is_linked_by_a_verified_address_alone(tmp_path: Path) -> None:
    async with _served(tmp_path, require_verified_email=False) as (served, fake):
        anna = await served.user("anna@example.org")
        fake.claims["email_verified"] = False
        _, answer = await _sign_in(served, fake)
        fake.claims["email_verified"] = True
        linked, _ = await _sign_in(served, fake)
        assert await served.user_id(linked) == await served.user_id(anna)
        assert (await served.login("anna@example.org")) is not None  # made by an admin: it stays
    assert answer.headers["location"] == "/login?error=email_already_exists"


async def test_a_squatter_of_an_address_loses_the_account_when_its_owner_comes(
    tmp_path: Path,
) -> None:
    async with _served(tmp_path) as (served, fake):
        squatter = await served.anonymous()
        body = {"email": "anna@example.org", "password": PASSWORD}
        assert (await squatter.post(f"{AUTH}/register", json=body)).status_code == 201
        owner, _ = await _sign_in(served, fake)
        form = {"username": "anna@example.org", "password": PASSWORD}
        login = await served.client.post(f"{AUTH}/login/local", data=form)
        assert (await owner.get(f"{AUTH}/me")).status_code == 200
        assert (await squatter.get(f"{AUTH}/me")).status_code == 401
    assert login.status_code == 401


async def test_who_took_an_address_later_does_not_share_the_account_of_its_owner(
    tmp_path: Path,
) -> None:
    async with _served(tmp_path, admin_emails=["anna@example.org"]) as (served, fake):
        squatter = await served.user("ben@example.org")
        change = {"current_password": PASSWORD, "new_password": PASSWORD}
        body = {**change, "new_email": "anna@example.org"}
        assert (await squatter.post(f"{AUTH}/change-password", json=body)).status_code == 200
        owner, _ = await _sign_in(served, fake)
        form = {"username": "anna@example.org", "password": PASSWORD}
        login = await served.client.post(f"{AUTH}/login/local", data=form)
        assert (await owner.get(f"{AUTH}/me")).json()["system_role"] == "admin"
        assert (await squatter.get(f"{AUTH}/me")).status_code == 401
    assert login.status_code == 401


async def test_an_account_that_signs_in_elsewhere_too_keeps_its_address(tmp_path: Path) -> None:
    async with _served(tmp_path) as (served, fake):
        anna = await served.user("anna@example.org")
        await _sign_in(served, fake)
        change = {"current_password": PASSWORD, "new_password": PASSWORD}
        kept = await anna.post(f"{AUTH}/change-password", json=change)
        body = {**change, "new_email": "root@example.org"}
        other = await anna.post(f"{AUTH}/change-password", json=body)
        again, _ = await _sign_in(served, fake)
        assert (await again.get(f"{AUTH}/me")).json()["email"] == "anna@example.org"
    assert (kept.status_code, other.status_code) == (200, 422)


async def test_providers_are_listed_when_oidc_is_on(tmp_path: Path) -> None:
    async with _served(tmp_path) as (served, _):
        shown = (await served.client.get(f"{AUTH}/providers")).json()
        unknown = await served.client.get(f"{AUTH}/oauth/other")
    async with gateway(tmp_path, auth=True) as served:
        assert (await served.client.get(f"{AUTH}/providers")).json() == {"providers": []}
    assert shown == {"providers": [{"id": "corp", "display_name": "Corp", "type": "oidc"}]}
    assert unknown.status_code == 404


@pytest.mark.parametrize(
    "text",
    [
        "https://evil.example.org",
        "//evil.example.org",
        "/\\evil",
        "\\\\evil",
        "evil",
        "/a\nb",
        "",
        "//[",
    ],
)
def test_a_login_leads_to_a_page_of_our_own(text: str) -> None:
    assert local_path(text) == "/"


def test_a_path_with_query_stays() -> None:
    assert local_path("/workspace/chats/1?x=//y#z") == "/workspace/chats/1?x=//y#z"
