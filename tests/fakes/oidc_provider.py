"""An OpenID Connect provider on loopback that checks what it is sent, and errs when told to.

async with OidcFake() as fake:
    ...configure issuer=fake.issuer, client_id="deer"...
    fake.claims["email"] = "anna@example.org"
    back = await fake.consent(url_that_the_browser_was_sent_to)   # address of the way back
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from typing import Any, Self
from urllib.parse import parse_qs, urlencode, urlsplit

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import KeySet, OctKey, RSAKey

CLIENT, SECRET = "deer", "client secret"


class OidcFake:
    """The provider.

    Attributes:
        claims: of the next ID token, over the right ones; None leaves a claim out.
        algorithm: that the next token is signed with: RS256, HS256 (with the client's secret) or
            none.
        foreign_key: sign with a key that the provider does not show.
        refuse_code: answer the exchange with an error.
        issuer_told: what discovery names as issuer, if not the right one.
        requests: paths that were asked, in order.
        proofs: how the client proved itself: basic, post or none.
    """

    def __init__(self) -> None:
        self.issuer = ""
        self.claims: dict[str, Any] = {}
        self.algorithm = "RS256"
        self.foreign_key = False
        self.refuse_code = False
        self.issuer_told = ""
        self.requests: list[str] = []
        self.proofs: list[str] = []
        self._key = RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})
        self._codes: dict[str, dict[str, str]] = {}
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self._metadata)
        app.router.add_get("/keys", self._keys)
        app.router.add_post("/token", self._token)
        self._runner = web.AppRunner(app)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        self.issuer = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def rotate(self) -> None:
        """Sign with another key from now on, and show that one alone."""
        self._key = RSAKey.generate_key(2048, {"kid": secrets.token_hex(4), "use": "sig"})

    def consent(self, url: str, **over: str) -> str:
        """What the provider's page does when the person agrees: the way back, with a code.

        Args:
            url: that the browser was sent to.
            over: parameters of the way back instead of the right ones.
        """
        asked = {key: values[0] for key, values in parse_qs(urlsplit(url).query).items()}
        assert url.startswith(f"{self.issuer}/authorize?")
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT
        assert "openid" in asked["scope"].split()
        code = secrets.token_hex(8)
        self._codes[code] = asked
        parts = urlsplit(asked["redirect_uri"])
        return f"{parts.path}?{urlencode({'code': code, 'state': asked['state'], **over})}"

    async def _metadata(self, request: web.Request) -> web.Response:
        self.requests.append(request.path)
        return web.json_response(
            {
                "issuer": self.issuer_told or self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
            }
        )

    async def _keys(self, request: web.Request) -> web.Response:
        self.requests.append(request.path)
        return web.json_response(KeySet([self._key]).as_dict(private=False))

    async def _token(self, request: web.Request) -> web.Response:
        self.requests.append(request.path)
        form = await request.post()
        header = request.headers.get("Authorization", "")
        if header.startswith("Basic "):
            proof = base64.b64decode(header[6:]).decode() == f"{CLIENT}:{SECRET}"
            self.proofs.append("basic")
        else:
            proof = (form.get("client_id"), form.get("client_secret", SECRET)) == (CLIENT, SECRET)
            self.proofs.append("post" if "client_secret" in form else "none")
        asked = self._codes.pop(str(form.get("code")), None)
        if self.refuse_code or not proof or asked is None:
            return web.json_response({"error": "invalid_grant"}, status=400)
        assert form["grant_type"] == "authorization_code"
        assert form["redirect_uri"] == asked["redirect_uri"]
        if "code_challenge" in asked:
            assert asked["code_challenge_method"] == "S256"
            made = hashlib.sha256(str(form["code_verifier"]).encode()).digest()
            assert base64.urlsafe_b64encode(made).rstrip(b"=").decode() == asked["code_challenge"]
        return web.json_response(
            {"access_token": "x", "token_type": "Bearer", "id_token": self._signed(asked)}
        )

    def _signed(self, asked: dict[str, str]) -> str:
        now = int(time.time())
        claims: dict[str, Any] = {
            "iss": self.issuer,
            "aud": CLIENT,
            "sub": "person 1",
            "iat": now,
            "exp": now + 300,
            "email": "anna@example.org",
            "email_verified": True,
            **({"nonce": asked["nonce"]} if "nonce" in asked else {}),
            **self.claims,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        if self.algorithm == "none":
            parts = [
                base64.urlsafe_b64encode(p).rstrip(b"=").decode()
                for p in (b'{"alg":"none"}', json.dumps(claims).encode())
            ]
            return ".".join([*parts, ""])
        if self.algorithm == "HS256":
            key: Any = OctKey.import_key(SECRET.ljust(32, "x"))
        else:
            key = RSAKey.generate_key(2048) if self.foreign_key else self._key
        header = {"alg": self.algorithm, "kid": self._key.kid}
        return jwt.encode(header, claims, key, algorithms=[self.algorithm])
