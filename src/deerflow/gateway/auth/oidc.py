"""OpenID Connect: discovery, the way to the provider, and the verified ID token that comes back."""

from __future__ import annotations

import asyncio
import time
from typing import Any, cast
from urllib.parse import urlencode, urlsplit

import aiohttp
import orjson
from authlib.oauth2.auth import ClientAuth
from authlib.oauth2.client import OAuth2Client
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from deerflow.config.access import OidcProviderConfig
from deerflow.errors import AuthError
from deerflow.gateway.auth.identity import Attempt, Identity
from deerflow.gateway.config import is_loopback

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
"""Signatures that are accepted: of public keys alone, so that no secret and no `none` signs."""

_KEPT_SECONDS = 3600.0
_AGAIN_SECONDS = 30.0
"""Keys are fetched again for an unknown one, but not more often than this."""
_LEEWAY_SECONDS = 60
_TIMEOUT = aiohttp.ClientTimeout(total=10)


class OidcProvider:
    """One provider of `auth.oidc.providers`."""

    def __init__(self, config: OidcProviderConfig) -> None:
        self._config = config
        self._metadata: tuple[float, dict[str, Any]] | None = None
        self._keys: tuple[float, KeySet] | None = None
        self._turn = asyncio.Lock()

    async def address(self, state: str, attempt: Attempt) -> str:
        """Where the browser is sent.

        Args:
            state: comes back with the answer.
            attempt: what this one goes by.

        Raises:
            AuthError: the provider cannot be reached or describes itself wrongly.
        """
        metadata = await self._discover()
        extra = {"nonce": attempt.nonce} if self._config.nonce else {}
        client: Any = OAuth2Client(
            None,
            client_id=self._config.client_id,
            redirect_uri=attempt.redirect_uri,
            scope=" ".join(self._config.scopes),
            code_challenge_method="S256" if self._config.pkce else None,
        )
        made: tuple[str, str] = client.create_authorization_url(
            _endpoint(metadata, "authorization_endpoint"),
            state=state,
            code_verifier=attempt.verifier if self._config.pkce else None,
            **extra,
        )
        return made[0]

    async def identify(self, code: str, attempt: Attempt) -> Identity:
        """Turn the code of an answer into the person, by an ID token whose signature is checked.

        Raises:
            AuthError: the provider refuses the code, or its token is not for us.
        """
        metadata = await self._discover()
        answer = await self._exchange(_endpoint(metadata, "token_endpoint"), code, attempt)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise _failed("it sent no ID token")
        claims = await self._claims(token, _endpoint(metadata, "jwks_uri"), attempt)
        email = claims.get("email")
        return Identity(
            self._config.issuer,
            str(claims["sub"]),
            email.strip().lower() if isinstance(email, str) else "",
            claims.get("email_verified") in (True, "true"),
        )

    async def _exchange(self, url: str, code: str, attempt: Attempt) -> dict[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": attempt.redirect_uri,
        }
        if self._config.pkce:
            form["code_verifier"] = attempt.verifier
        body = urlencode(form)
        prover: Any = ClientAuth(
            self._config.client_id,
            self._config.client_secret or "",
            self._config.token_endpoint_auth_method,
        )
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        url, headers, body = prover.prepare("POST", url, headers, body)
        return await _json("POST", url, headers=headers, data=body)

    async def _claims(self, token: str, keys_url: str, attempt: Attempt) -> dict[str, Any]:
        asked: dict[str, jwt.ClaimsOption] = {
            "iss": {"essential": True, "value": self._config.issuer},
            "aud": {"essential": True, "value": self._config.client_id},
            **{name: {"essential": True} for name in ("sub", "exp", "iat")},
        }
        if self._config.nonce:
            asked["nonce"] = {"essential": True, "value": attempt.nonce}
        registry = jwt.JWTClaimsRegistry(None, _LEEWAY_SECONDS, **asked)
        try:
            claims = (await self._decoded(token, keys_url)).claims
            registry.validate(claims)
        except (JoseError, ValueError) as error:
            raise _failed(f"its ID token is refused ({error})") from error
        party = claims.get("azp")
        several = isinstance(claims.get("aud"), list) and len(claims["aud"]) > 1
        if (several or party is not None) and party != self._config.client_id:
            raise _failed("its ID token is for somebody else")
        return claims

    async def _decoded(self, token: str, keys_url: str) -> jwt.Token:
        keys = await self._key_set(keys_url, newer_than=_KEPT_SECONDS)
        try:
            return jwt.decode(token, keys, algorithms=ALGORITHMS)
        except (JoseError, ValueError):
            fresh = await self._key_set(keys_url, newer_than=_AGAIN_SECONDS)
            if fresh is keys:
                raise
            return jwt.decode(token, fresh, algorithms=ALGORITHMS)

    async def _key_set(self, url: str, *, newer_than: float) -> KeySet:
        async with self._turn:
            if self._keys is None or time.monotonic() - self._keys[0] > newer_than:
                found = await _json("GET", url)
                try:
                    keys = KeySet.import_key_set(cast("Any", found))
                except (JoseError, ValueError, KeyError, TypeError) as error:
                    raise _failed("its keys cannot be read") from error
                self._keys = (time.monotonic(), keys)
            return self._keys[1]

    async def _discover(self) -> dict[str, Any]:
        async with self._turn:
            known = self._metadata
            if known is not None and time.monotonic() - known[0] < _KEPT_SECONDS:
                return known[1]
            issuer = self._config.issuer
            url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
            metadata = await _json("GET", url)
            if metadata.get("issuer") != issuer:
                raise _failed("it names another issuer than the configuration")
            self._metadata = (time.monotonic(), metadata)
            return metadata


async def _json(method: str, url: str, **more: Any) -> dict[str, Any]:
    """A JSON object; redirects are not followed, since secrets are sent."""
    try:
        async with (
            aiohttp.ClientSession(timeout=_TIMEOUT) as client,
            client.request(method, url, allow_redirects=False, **more) as answer,
        ):
            status = answer.status
            found = orjson.loads(await answer.read()) if status == 200 else None
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise _failed("it cannot be reached") from error
    if not isinstance(found, dict):
        raise _failed(f"it answered {status}")
    return cast("dict[str, Any]", found)


def _endpoint(metadata: dict[str, Any], name: str) -> str:
    url = metadata.get(name)
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
    except ValueError as error:
        raise _failed(f"its {name} is no address") from error
    if parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        return str(url)
    raise _failed(f"it names no {name} with https")


def _failed(reason: str) -> AuthError:
    return AuthError(f"The sign-in provider failed: {reason}.", reason="provider_failed")
