"""Routes that need no sign-in; everything else below /api does."""

from __future__ import annotations

PUBLIC = frozenset(
    {
        ("GET", "/health"),
        ("GET", "/ready"),
        ("GET", "/api/v1/auth/setup-status"),
        ("GET", "/api/v1/auth/providers"),
        ("POST", "/api/v1/auth/login/local"),
        ("POST", "/api/v1/auth/register"),
        ("POST", "/api/v1/auth/initialize"),
    }
)
"""Method and path. HEAD counts as GET."""

PUBLIC_BELOW = (
    "/api/v1/auth/oauth/",
    "/api/v1/auth/callback/",
    "/api/webhooks/",
)
"""Paths below these are public too: OIDC, and deliveries that carry a signature of their own."""


def is_public(method: str, path: str) -> bool:
    """Whether nobody needs to be signed in for it.

    What is not below /api is the web UI and /metrics, which looks after itself.
    """
    if not path.startswith("/api/") and path != "/api":
        return True
    if ("GET" if method == "HEAD" else method, path) in PUBLIC:
        return True
    return path.startswith(PUBLIC_BELOW)


def asks_who(path: str) -> bool:
    """Whether a public route wants to know who calls, if anybody is signed in."""
    return path == "/metrics"
