from __future__ import annotations

import pytest
from starlette.requests import HTTPConnection

from deerflow.gateway.auth.address import (
    client_address,
    is_https,
    is_local,
    names_this_machine,
    own_url,
    same_site,
)
from deerflow.gateway.config import GatewayConfig

PROXIED = GatewayConfig(proxies=("10.0.0.1", "10.0.0.2"))


def _call(peer: str = "127.0.0.1", *lines: tuple[str, str], **headers: str) -> HTTPConnection:
    headers = {"host": "127.0.0.1:2026", **headers}
    named = [*lines, *((name.replace("_", "-"), text) for name, text in headers.items())]
    pairs = [(name.encode(), text.encode()) for name, text in named]
    return HTTPConnection(
        {
            "type": "http",
            "scheme": "http",
            "path": "/",
            "query_string": b"",
            "server": ("127.0.0.1", 2026),
            "client": (peer, 1),
            "headers": pairs,
        }
    )


@pytest.mark.parametrize(
    ("peer", "forwarded", "found"),
    [
        ("203.0.113.9", "127.0.0.1", "203.0.113.9"),  # nobody told us to believe it
        ("10.0.0.1", "203.0.113.9", "203.0.113.9"),
        ("10.0.0.1", "198.51.100.1, 203.0.113.9", "203.0.113.9"),  # the first is made up
        ("10.0.0.1", "203.0.113.9, 10.0.0.2", "203.0.113.9"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", " , ", "10.0.0.1"),
    ],
)
def test_the_caller_is_who_trusted_proxies_saw(peer: str, forwarded: str, found: str) -> None:
    assert client_address(_call(peer, x_forwarded_for=forwarded), PROXIED) == found


def test_a_line_that_a_proxy_adds_counts_more_than_the_caller_s_own() -> None:
    lines = [
        (f"x-forwarded-{name}", text)
        for name, made_up, seen in (
            ("for", "198.51.100.1", "203.0.113.9"),
            ("host", "evil.example.org", "flow.example.org"),
            ("proto", "https", "http"),
        )
        for text in (made_up, seen)
    ]
    call = _call("10.0.0.1", *lines)
    assert client_address(call, PROXIED) == "203.0.113.9"
    assert own_url(call, PROXIED) == "http://flow.example.org"


def test_a_name_of_another_site_that_leads_here_is_not_local() -> None:
    assert not is_local(_call(host="evil.example.org:2026"))
    assert not is_local(_call(host=""))
    assert is_local(_call(host="localhost:2026"))


def test_only_a_direct_call_of_this_machine_is_local() -> None:
    assert is_local(_call())
    assert is_local(_call("::1"))
    assert not is_local(_call("203.0.113.9"))
    for name in ("x_forwarded_for", "forwarded", "x_real_ip", "via"):
        assert not is_local(_call("127.0.0.1", **{name: "127.0.0.1"}))


@pytest.mark.parametrize(
    ("origin", "fine"),
    [
        (None, True),
        ("http://deer.example.org", True),
        ("https://deer.example.org", True),  # a proxy ends TLS
        ("http://deer.example.org:81", False),
        ("http://evil.example.org", False),
        ("http://deer.example.org.evil.org", False),
        ("null", False),
        ("", False),
        ("http://[", False),
        ("https://ui.example.org", True),
    ],
)
def test_our_own_pages_and_configured_ones_may_call(origin: str | None, fine: bool) -> None:
    config = GatewayConfig(origins=("https://ui.example.org",))
    headers = {"host": "deer.example.org"} | ({} if origin is None else {"origin": origin})
    assert same_site(_call(**headers), config) is fine


def test_a_forwarded_scheme_counts_from_a_trusted_proxy_alone() -> None:
    assert is_https(_call("10.0.0.1", x_forwarded_proto="https"), PROXIED)
    assert not is_https(_call("203.0.113.9", x_forwarded_proto="https"), PROXIED)
    assert is_https(_call(), GatewayConfig(cookies_secure=True))


def test_our_address_is_what_people_use() -> None:
    headers = {"host": "inner:1", "x_forwarded_host": "deer.example.org"}
    headers["x_forwarded_proto"] = "https"
    assert own_url(_call("10.0.0.1", **headers), PROXIED) == "https://deer.example.org"
    assert own_url(_call("203.0.113.9", **headers), PROXIED) == "http://inner:1"
    public = GatewayConfig(public_url="https://deer.example.org/")
    assert own_url(_call(**headers), public) == "https://deer.example.org"


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("localhost:2026", True),
        ("127.0.0.1", True),
        ("[::1]:2026", True),
        ("evil.example.org", False),
        ("127.0.0.1.evil.org", False),
        ("", False),
    ],
)
def test_names_of_this_machine(host: str, ours: bool) -> None:
    assert names_this_machine(_call(host=host)) is ours
