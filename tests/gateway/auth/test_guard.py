from __future__ import annotations

from pathlib import Path

import pytest

from deerflow.errors import AuthError
from deerflow.gateway.auth.public import is_public
from deerflow.gateway.config import GatewayConfig
from deerflow.gateway.deps import Caller
from fakes.gateway import gateway, route_table

ME = "/api/v1/auth/me"


async def test_every_route_that_is_not_public_refuses_callers_without_credentials(
    tmp_path: Path,
) -> None:
    seen = 0
    async with gateway(tmp_path, auth=True) as served:
        stranger = await served.anonymous()
        for route in route_table(served.app):
            if route.method == "WEBSOCKET":
                assert not is_public("GET", route.filled), route
                continue
            if is_public(route.method, route.filled):
                continue
            answer = await stranger.request(route.method, route.filled)
            assert answer.status_code == 401, route
            if route.method != "HEAD":
                assert answer.json()["detail"]["code"] == "not_authenticated"
            seen += 1
    assert seen > 3


async def test_unknown_paths_below_api_are_refused_before_they_are_not_found(
    tmp_path: Path,
) -> None:
    async with gateway(tmp_path, auth=True) as served:
        for path in ("/api/none", "/api/langgraph/none", "/api/openapi.json"):
            assert (await served.client.get(path)).status_code == 401


async def test_a_session_reads_and_writes_only_with_its_csrf_token(tmp_path: Path) -> None:
    async with gateway(tmp_path, auth=True) as served:
        anna = await served.user("anna@example.org")
        assert (await anna.get(ME)).json()["email"] == "anna@example.org"
        logout = "/api/v1/auth/logout"
        wrong = [
            await anna.post(logout, headers={"X-CSRF-Token": text})
            for text in ("", "wrong", anna.cookies["access_token"])
        ]
        assert [answer.status_code for answer in wrong] == [403, 403, 403]
        # A cookie that somebody planted beside a header that agrees with it is not the session's.
        anna.cookies.set("csrf_token", "planted", domain="127.0.0.1")
        planted = await anna.post(logout, headers={"X-CSRF-Token": "planted"})
        assert planted.status_code == 403
        assert (await anna.get(ME)).status_code == 200


async def test_a_session_of_nobody_and_a_token_of_nobody_are_refused(tmp_path: Path) -> None:
    async with gateway(tmp_path, auth=True) as served:
        client = await served.anonymous()
        client.cookies.set("access_token", "x", domain="127.0.0.1")
        cookie = await client.get(ME)
        bearer = await served.client.get(ME, headers={"Authorization": "Bearer df_unknown"})
        key = await served.client.get(ME, headers={"X-Api-Key": "df_unknown"})
        foreign = await served.client.get(ME, headers={"X-Api-Key": "lsv2_other_service"})
    assert cookie.json()["detail"]["code"] == "token_expired"
    assert bearer.json()["detail"]["code"] == key.json()["detail"]["code"] == "token_invalid"
    assert foreign.json()["detail"]["code"] == "not_authenticated"
    assert {a.status_code for a in (cookie, bearer, key, foreign)} == {401}


async def test_a_session_secret_is_no_api_token(tmp_path: Path) -> None:
    async with gateway(tmp_path, auth=True) as served:
        anna = await served.user("anna@example.org")
        stranger = await served.anonymous()
        answer = await stranger.get(
            ME, headers={"Authorization": f"Bearer {anna.cookies['access_token']}"}
        )
    assert answer.status_code == 401


async def test_without_sign_in_only_this_machine_s_names_and_own_pages_are_served(
    tmp_path: Path,
) -> None:
    async with gateway(tmp_path) as served:
        rebound = await served.client.get(ME, headers={"Host": "evil.example.org"})
        v6 = await served.client.get(ME, headers={"Host": "[::1]:2026"})
        foreign = await served.client.post(
            "/api/v1/auth/logout", headers={"Origin": "https://evil.example.org"}
        )
        sandboxed = await served.client.post("/api/v1/auth/logout", headers={"Origin": "null"})
        own = await served.client.post(
            "/api/v1/auth/logout", headers={"Origin": "http://127.0.0.1:2026"}
        )
    codes = [a.status_code for a in (rebound, v6, foreign, sandboxed, own)]
    assert codes == [403, 200, 403, 403, 200]


@pytest.mark.parametrize(
    ("caller", "allowed"),
    [
        (Caller("u"), {"runs:create": True, "admin": False}),
        (Caller("u", role="admin"), {"runs:create": True, "admin": True}),
        (
            Caller("u", role="admin", scopes=frozenset({"runs:read"})),
            {"runs:read": True, "runs:create": False, "admin": False},
        ),
        (Caller("u", scopes=frozenset({"admin"})), {"admin": False}),
    ],
)
def test_what_a_caller_may(caller: Caller, allowed: dict[str, bool]) -> None:
    assert {name: caller.may(name) for name in allowed} == allowed  # type: ignore[arg-type]


def test_public_routes_are_those_of_the_list_alone() -> None:
    assert is_public("GET", "/health")
    assert is_public("HEAD", "/api/v1/auth/providers")
    assert is_public("POST", "/api/webhooks/github")
    assert not is_public("DELETE", "/api/v1/auth/login/local")
    assert not is_public("GET", "/api/v1/auth/me")
    assert not is_public("GET", "/api")
    assert issubclass(AuthError, Exception)
    assert GatewayConfig().loopback
