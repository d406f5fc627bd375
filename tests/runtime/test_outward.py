"""Which addresses may be called for a client."""

from __future__ import annotations

import socket

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from deerflow.runtime.outward import Outward, RefusedAddressError

INNER = [
    "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0.0.0.0", "10.1.2.3",
    "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "224.0.0.1", "240.0.0.1",
    "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "localhost",
    "LOCALHOST.", "a.localhost",
]  # fmt: skip


@pytest.mark.parametrize("host", INNER)
def test_inner_addresses_are_refused(host: str) -> None:
    with pytest.raises(RefusedAddressError):
        Outward().check_literal(host)


@pytest.mark.parametrize("host", ["8.8.8.8", "2606:4700::1111", "example.org", "10.example.org"])
def test_outer_ones_are_not(host: str) -> None:
    Outward().check_literal(host)


def test_what_is_allowed_may_be_inner() -> None:
    outward = Outward(["10.0.0.0/8", "::1", "Hooks.internal"])
    outward.check_literal("10.9.9.9")
    outward.check_literal("::1")
    outward.check("hooks.internal", "192.168.0.9")
    for host, address in (("hooks.internal.example", "192.168.0.9"), ("x", "172.16.0.1")):
        with pytest.raises(RefusedAddressError):
            outward.check(host, address)


async def test_a_name_of_an_inner_address_is_refused_when_it_is_called() -> None:
    async def never(request: web.Request) -> web.Response:
        raise AssertionError("it was called")

    app = web.Application()
    app.router.add_post("/", never)
    async with TestServer(app, host="127.0.0.1") as server, Outward().session(5) as session:
        name = "localhost.localdomain" if _known("localhost.localdomain") else socket.gethostname()
        with pytest.raises(aiohttp.ClientConnectorError) as caught:
            await session.post(f"http://{name}:{server.port}/")
        assert isinstance(caught.value.os_error, OSError)


def _known(name: str) -> bool:
    try:
        socket.getaddrinfo(name, 80)
    except OSError:
        return False
    return True
