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
    for hop in reversed(_listed(connection, "x-forwarded-for")):
        if hop not in config.proxies:
            return hop
    return peer


def is_local(connection: HTTPConnection) -> bool:
    """Whether the call comes from this machine, through no proxy, and calls it by its own name.

    A page of another site whose name was made to lead here comes from this machine's browser, but
    under that site's name.
    """
    peer = connection.client.host if connection.client else ""
    direct = is_loopback(peer) and not any(name in connection.headers for name in FORWARDING)
    return direct and names_this_machine(connection)


def is_https(connection: HTTPConnection, config: GatewayConfig) -> bool:
    """Whether the browser speaks HTTPS."""
    if config.cookies_secure or connection.url.scheme in ("https", "wss"):
        return True
    seen = _listed(connection, "x-forwarded-proto")
    return _by_proxy(connection, config) and seen[-1:] == ["https"]


def own_host(connection: HTTPConnection, config: GatewayConfig) -> str:
    """The host (with port) under which the browser reached us."""
    if _by_proxy(connection, config):
        forwarded = _listed(connection, "x-forwarded-host")
        if forwarded:
            return forwarded[-1]
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
    try:
        host = urlsplit(origin).netloc.lower()
    except ValueError:  # no address at all
        return False
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


def _listed(connection: HTTPConnection, name: str) -> list[str]:
    """Values of a header that each proxy adds to, in lower case, the nearest proxy's last.

    Some proxies append to the line that they got, others add a line of their own.
    """
    lines = connection.headers.getlist(name)
    values = [value.strip().lower() for line in lines for value in line.split(",")]
    return [value for value in values if value]
