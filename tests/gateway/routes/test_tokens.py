from __future__ import annotations

from pathlib import Path

import pytest

from deerflow.gateway.auth.access import Access
from deerflow.gateway.auth.public import is_public
from fakes.gateway import gateway, route_table

AUTH = "/api/v1/auth"
FREE = {
    ("GET", "/api/openapi.json"),
    ("GET", f"{AUTH}/me"),
    ("POST", f"{AUTH}/logout"),
    ("POST", f"{AUTH}/tokens"),  # of its body, before a session is asked for
    ("POST", f"{AUTH}/change-password"),
}


async def test_a_token_is_shown_once_works_without_csrf_and_can_be_revoked(tmp_path: Path) -> None:
    async with gateway(tmp_path, auth=True) as served:
        anna = await served.user("anna@example.org")
        made = await anna.post(f"{AUTH}/tokens", json={"name": "ci", "expires_in_days": 30})
        secret, number = made.json()["token"], made.json()["id"]
        stranger = await served.anonymous()
        answers = [
            await stranger.get(f"{AUTH}/me", headers=headers)
            for headers in (
                {"Authorization": f"Bearer {secret}"},
                {"authorization": f"bearer {secret}"},
                {"X-Api-Key": secret},
            )
        ]
        writing = await stranger.post(f"{AUTH}/logout", headers={"X-Api-Key": secret})
        listed = (await anna.get(f"{AUTH}/tokens")).json()["tokens"]
        revoked = await anna.delete(f"{AUTH}/tokens/{number}")
        after = await stranger.get(f"{AUTH}/me", headers={"X-Api-Key": secret})
    assert made.status_code == 201
    assert secret.startswith("df_")
    assert [a.json()["email"] for a in answers] == ["anna@example.org"] * 3
    assert writing.status_code == 200
    assert [(t["id"], t["name"], "token" in t) for t in listed] == [(number, "ci", False)]
    assert listed[0]["expires_at"] > listed[0]["created_at"]
    assert secret not in str(listed)
    assert (revoked.status_code, after.status_code) == (204, 401)


async def test_the_database_holds_the_hash_alone(tmp_path: Path) -> None:
    async with gateway(tmp_path, auth=True, database={"backend": "sqlite"}) as served:
        anna = await served.user("anna@example.org")
        secret = (await anna.post(f"{AUTH}/tokens", json={})).json()["token"]
        cookie = anna.cookies["access_token"]
        await served.harness.storage.flush()
    files = _contents(tmp_path)
    assert files
    for text in (secret, secret[3:], cookie, "correct horse"):
        assert not any(text.encode() in data for data in files)


def _contents(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in folder.rglob("*") if file.is_file()]


async def test_a_token_makes_no_tokens_and_changes_no_password(tmp_path: Path) -> None:
    async with gateway(tmp_path, auth=True) as served:
        anna = await served.user("anna@example.org")
        secret = (await anna.post(f"{AUTH}/tokens", json={})).json()["token"]
        bearer = await served.anonymous(Authorization=f"Bearer {secret}")
        change = {"current_password": "x" * 9, "new_password": "y" * 9}
        answers = [
            await bearer.get(f"{AUTH}/tokens"),
            await bearer.post(f"{AUTH}/tokens", json={}),
            await bearer.post(f"{AUTH}/change-password", json=change),
        ]
    assert {answer.status_code for answer in answers} == {403}


@pytest.mark.parametrize("scopes", [["nonsense"], ["admin"], ["runs:read", "admin"]])
async def test_scopes_that_do_not_exist_or_that_the_role_lacks_are_refused(
    tmp_path: Path, scopes: list[str]
) -> None:
    async with gateway(tmp_path, auth=True) as served:
        anna = await served.user("anna@example.org")
        answer = await anna.post(f"{AUTH}/tokens", json={"scopes": scopes})
        assert (await anna.get(f"{AUTH}/tokens")).json() == {"tokens": []}
    assert answer.status_code == 422


async def test_a_token_s_scopes_bound_the_caller(tmp_path: Path) -> None:
    async with gateway(tmp_path, auth=True) as served:
        root = await served.user("root@example.org", role="admin")
        body = {"scopes": ["runs:read"]}
        secret = (await root.post(f"{AUTH}/tokens", json=body)).json()["token"]
        session = await Access.of(served.gateway).sessions.find(secret, "api")
    assert session is not None
    assert session.caller.may("runs:read")
    assert not session.caller.may("admin")
    assert not session.caller.may("threads:read")


async def test_a_reader_s_token_stops_no_run_by_leaving(tmp_path: Path) -> None:
    async with gateway(tmp_path, ["Hello."], auth=True) as served:
        anna = await served.user("anna@example.org")
        begun = await anna.post("/api/threads/t/runs", json={"input": "Hi"})
        run = f"/api/threads/t/runs/{begun.json()['run_id']}"
        body = {"scopes": ["runs:read", "threads:read"]}
        secret = (await anna.post(f"{AUTH}/tokens", json=body)).json()["token"]
        reader = await served.anonymous(Authorization=f"Bearer {secret}")
        codes = [
            (await reader.get(f"{place}?cancel_on_disconnect={leaving}")).status_code
            for place in (f"{run}/stream", f"{run}/join", f"/api/runs/{run[-32:]}/stream")
            for leaving in (0, 1)
        ]
    assert codes == [200, 403] * 3


async def test_a_token_without_scopes_is_let_in_by_few_routes(tmp_path: Path) -> None:
    """Those that say who it is, and what says nothing of anybody."""
    async with gateway(tmp_path, auth=True) as served:
        root = await served.user("root@example.org", role="admin")
        secret = (await root.post(f"{AUTH}/tokens", json={"scopes": []})).json()["token"]
        bearer = await served.anonymous(Authorization=f"Bearer {secret}")
        found = {
            (route.method, route.path)
            for route in route_table(served.app)
            if route.method not in ("WEBSOCKET", "HEAD")
            and not is_public(route.method, route.filled)
            and (await bearer.request(route.method, route.filled)).status_code != 403
        }
    assert found == FREE


async def test_somebody_else_s_token_is_like_a_random_id(tmp_path: Path) -> None:
    async with gateway(tmp_path, auth=True) as served:
        anna, ben = await served.user("anna@example.org"), await served.user("ben@example.org")
        number = (await anna.post(f"{AUTH}/tokens", json={})).json()["id"]
        foreign = await ben.delete(f"{AUTH}/tokens/{number}")
        unknown = await ben.delete(f"{AUTH}/tokens/{'0' * 32}")
        assert len((await anna.get(f"{AUTH}/tokens")).json()["tokens"]) == 1
    assert foreign.status_code == unknown.status_code == 404
    assert foreign.json()["code"] == unknown.json()["code"] == "not_found"
