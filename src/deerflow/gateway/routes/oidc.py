"""Sign-in at other parties: the way there and the way back."""

from __future__ import annotations

import time
import uuid
from typing import Annotated, Any, Protocol
from urllib.parse import quote

from fastapi import APIRouter, Depends, Path, Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from deerflow.config.access import OidcProviderConfig
from deerflow.errors import AuthError, NotFoundError, UsageError
from deerflow.gateway.auth.access import Access
from deerflow.gateway.auth.address import is_https, own_url
from deerflow.gateway.auth.cookies import set_cookies
from deerflow.gateway.auth.identity import Attempt, Identity, account_of
from deerflow.gateway.auth.secret import digest, new_secret, same
from deerflow.gateway.deps import gateway_of
from deerflow.gateway.routes.auth import AccessOf
from deerflow.storage.protocol import TokenRow

router = APIRouter(prefix="/v1/auth", tags=["auth"])

COOKIE = "oidc_login"
"""Binds an attempt to the browser that began it."""
ATTEMPT_SECONDS = 600
_BACK = "/api/v1/auth/callback"


class Party(Protocol):
    """What the routes ask of a provider; see `gateway.auth.oidc.OidcProvider`."""

    async def address(self, state: str, attempt: Attempt) -> str:
        """Where the browser is sent."""
        ...

    async def identify(self, code: str, attempt: Attempt) -> Identity:
        """The person whom an answer's code stands for."""
        ...


class Parties(dict[str, tuple[OidcProviderConfig, Party]]):
    """Those that were used so far, with what they have told about themselves."""


class Answer(BaseModel):
    """What the provider sends along; parameters that only some send are left out."""

    code: str = Field(default="", max_length=10_000)
    state: str = Field(default="", max_length=500)
    error: str = Field(default="", max_length=500)


@router.get("/providers")
async def providers(access: AccessOf) -> dict[str, list[dict[str, str]]]:
    """The buttons of the login page."""
    oidc = access.config.oidc
    return {
        "providers": [
            {"id": name, "display_name": entry.display_name or name, "type": "oidc"}
            for name, entry in (oidc.providers.items() if oidc.enabled else ())
        ]
    }


async def provider_of(
    request: Request, access: AccessOf, provider: Annotated[str, Path(max_length=100)]
) -> Party:
    """The provider named in the path.

    Raises:
        NotFoundError: there is none.
        UsageError: its libraries are not installed.
    """
    config = access.config.oidc.providers.get(provider)
    if config is None or not access.config.oidc.enabled:
        raise NotFoundError(f"There is no sign-in provider {provider}.")
    known: Parties = gateway_of(request).extra.setdefault(Parties, Parties())
    if provider not in known or known[provider][0] != config:
        known[provider] = (config, _party(config))
    return known[provider][1]


ProviderOf = Annotated[Party, Depends(provider_of)]


@router.get("/oauth/{provider}")
async def begin(
    request: Request,
    access: AccessOf,
    party: ProviderOf,
    provider: str,
    *,
    next: Annotated[str, Query(max_length=2000)] = "/",
    remember_me: bool = False,
) -> Response:
    """Send the browser to the provider."""
    state, browser, now = new_secret(), new_secret(), time.time()
    redirect = access.config.oidc.providers[provider].redirect_uri
    attempt = Attempt(
        new_secret(),
        new_secret(),
        redirect or f"{own_url(request, access.process)}{_BACK}/{provider}",
    )
    try:
        url = await party.address(state, attempt)
    except AuthError as error:
        return _to_login(access, error.reason)
    data = {
        "provider": provider,
        "nonce": attempt.nonce,
        "verifier": attempt.verifier,
        "redirect_uri": attempt.redirect_uri,
        "next": local_path(next),
        "remember": remember_me,
        "browser": digest(browser).hex(),
    }
    await access.accounts.add_token(
        TokenRow(
            token_id=uuid.uuid4().hex,
            user_id="",
            kind="login",
            hash=digest(state),
            created_at=now,
            expires_at=now + ATTEMPT_SECONDS,
            data=data,
        )
    )
    response = RedirectResponse(url, status_code=302)
    response.set_cookie(
        COOKIE,
        browser,
        max_age=ATTEMPT_SECONDS,
        path=_BACK,
        httponly=True,
        samesite="lax",
        secure=is_https(request, access.process),
    )
    return response


@router.get("/callback/{provider}")
async def back(
    request: Request,
    access: AccessOf,
    party: ProviderOf,
    provider: str,
    answer: Annotated[Answer, Query()],
) -> Response:
    """The browser comes back: sign it in, or say on the login page why not."""
    try:
        data = await _attempt(request, access, provider, answer.state)
        if answer.error or not answer.code:
            raise AuthError("The provider refused.", reason="provider_refused")
        attempt = Attempt(data["nonce"], data["verifier"], data["redirect_uri"])
        who = await party.identify(answer.code, attempt)
        config = access.config.oidc.providers[provider]
        row = await account_of(access, provider, config, who)
    except AuthError as failed:
        await access.note("login_failed", "", request, target=provider, reason=failed.reason)
        return _to_login(access, failed.reason)
    await access.note("login", row.user_id, request, target=provider)
    opened = await access.sessions.open(row, remember=bool(data["remember"]))
    response = RedirectResponse(_frontend(access, local_path(data["next"])), status_code=303)
    response.delete_cookie(COOKIE, path=_BACK)
    set_cookies(response, request, access, opened)
    return response


def local_path(text: str) -> str:
    """A path of our own, or "/": an address of another site must not be where a login leads."""
    ours = text.startswith("/") and not text.startswith("//")
    return text if ours and text.isprintable() and "\\" not in text else "/"


def _party(config: OidcProviderConfig) -> Party:
    try:
        from deerflow.gateway.auth.oidc import OidcProvider  # noqa: PLC0415  (an extra)
    except ImportError as error:
        raise UsageError(
            "Sign-in at other parties needs libraries that are not installed.",
            cure="Install deerflow[oidc].",
        ) from error
    return OidcProvider(config)


async def _attempt(request: Request, access: Access, provider: str, state: str) -> dict[str, Any]:
    """What was begun under this state, once, by this browser and at this provider."""
    row = await access.accounts.take_token(digest(state), now=time.time()) if state else None
    if row is None or row.kind != "login" or row.data["provider"] != provider:
        raise AuthError("The sign-in is unknown or too old.", reason="state_invalid")
    browser = request.cookies.get(COOKIE, "")
    if not same(digest(browser).hex(), row.data["browser"]):
        raise AuthError("The sign-in was begun in another browser.", reason="state_invalid")
    return row.data


def _frontend(access: Access, path: str) -> str:
    return f"{(access.config.oidc.frontend_base_url or '').rstrip('/')}{path}"


def _to_login(access: Access, reason: str) -> Response:
    return RedirectResponse(_frontend(access, f"/login?error={quote(reason)}"), status_code=303)
