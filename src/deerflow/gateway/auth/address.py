"""Who is at the other end: forwarding headers count only when a trusted proxy sends them."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from deerflow.gateway.config import GatewayConfig, is_loopback

FORWARDING = ("x-forwarded-for", "x-real-ip", "forwarded", "x-forwarded-host", "via")
"""Headers that proxies add."""


def client_address(connection: HTTPConnection, config: GatewayConfig) -> str:
    """The caller's address: the peer, or what trusted proxies say stands before them."""
    peer = connection.client.host if connection.client else ""
    if peer not in config.proxies:
        return peer
    hops = [hop.strip() for hop in connection.headers.get("x-forwarded-for", "").split(",")]
    for hop in reversed([hop for hop in hops if hop]):
        if hop not in config.proxies:
            return hop
    return peer


def is_local(connection: HTTPConnection) -> bool:
    """Whether the call comes from this machine and through no proxy."""
    peer = connection.client.host if connection.client else ""
    return is_loopback(peer) and not any(name in connection.headers for name in FORWARDING)


def is_https(connection: HTTPConnection, config: GatewayConfig) -> bool:
    """Whether the browser speaks HTTPS."""
    if config.cookies_secure or connection.url.scheme in ("https", "wss"):
        return True
    return (
        _by_proxy(connection, config)
        and connection.headers.get("x-forwarded-proto", "").lower() == "https"
    )


def own_host(connection: HTTPConnection, config: GatewayConfig) -> str:
    """The host (with port) under which the browser reached us."""
    if _by_proxy(connection, config):
        forwarded = connection.headers.get("x-forwarded-host", "")
        if forwarded:
            return forwarded.split(",")[-1].strip().lower()
    return connection.headers.get("host", "").lower()


def own_url(connection: HTTPConnection, config: GatewayConfig) -> str:
    """Scheme and host under which people reach us, without a slash at the end."""
    if config.public_url:
        return config.public_url.rstrip("/")
    scheme = "https" if is_https(connection, config) else "http"
    return f"{scheme}://{own_host(connection, config)}"


def same_site(connection: HTTPConnection, config: GatewayConfig) -> bool:
    """Whether a call comes from our own pages, from configured ones, or from no browser at all."""
    origin = connection.headers.get("origin")
    if origin is None:
        return True
    if origin in config.origins:
        return True
    host = urlsplit(origin).netloc.lower()
    if not host:  # "null": a page without an origin of its own
        return False
    public = urlsplit(config.public_url).netloc.lower()
    return host in (own_host(connection, config), public)


def names_this_machine(connection: HTTPConnection) -> bool:
    """Whether the Host header is a name of this machine; another one is a rebound DNS name."""
    host = connection.headers.get("host", "")
    name = host.rpartition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
    return is_loopback(name)


def _by_proxy(connection: HTTPConnection, config: GatewayConfig) -> bool:
    return connection.client is not None and connection.client.host in config.proxies
