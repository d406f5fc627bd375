"""Calls to addresses that clients name: never to this machine, inner networks or metadata.

A name is resolved once, its addresses are checked, and the connection goes to one of those that
were checked; so a name that resolves differently the second time gains nothing.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

_NAT64 = ip_network("64:ff9b::/96")
_LOCAL_NAT64 = ip_network("64:ff9b:1::/48")
CONNECT_SECONDS = 5.0


class RefusedAddressError(OSError):
    """The address belongs to this machine or to an inner network."""


class Outward:
    """What may be called.

    Args:
        allowed: host names, addresses or networks that may be called although they are inner ones.
    """

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        self._names = {name.lower().rstrip(".") for name in allowed}
        self._networks = [network for name in allowed if (network := _network(name)) is not None]

    def check_literal(self, host: str) -> None:
        """Refuse an inner address that is written as such, or a name of this machine.

        Raises:
            RefusedAddressError: it is one.
        """
        name = host.lower().rstrip(".")
        if name in self._names:
            return
        if name == "localhost" or name.endswith(".localhost"):
            raise RefusedAddressError(f"{name} is this machine")
        address = _literal(name)
        if address is not None:
            self._check(address)

    def check(self, host: str, address: str) -> None:
        """Refuse an address that a name resolved to. Raises RefusedAddressError."""
        if host.lower().rstrip(".") not in self._names:
            self._check(ip_address(address.partition("%")[0]))

    def _check(self, address: IPv4Address | IPv6Address) -> None:
        for each in (address, *_inside(address)):
            if not any(each in network for network in self._networks) and not _is_public(each):
                raise RefusedAddressError("the address belongs to an inner network")

    def session(self, seconds: float) -> aiohttp.ClientSession:
        """A session whose connections are checked, each call bounded to so many seconds."""
        connector = aiohttp.TCPConnector(
            resolver=_Checked(self), use_dns_cache=False, force_close=True
        )
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)
        return aiohttp.ClientSession(
            connector=connector, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()
        )


class _Checked(AbstractResolver):
    """Resolves names in the system's way, and gives only addresses that may be called."""

    def __init__(self, outward: Outward) -> None:
        self._outward = outward

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Raises OSError: unknown, or one of its addresses is an inner one."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, family=family)
        results: list[ResolveResult] = []
        for kind, _, protocol, _, place in found:
            address = str(place[0])
            self._outward.check(host, address)
            results.append(
                ResolveResult(
                    hostname=host,
                    host=address,
                    port=port,
                    family=kind,
                    proto=protocol,
                    flags=socket.AI_NUMERICHOST,
                )
            )
        return results

    async def close(self) -> None:
        """Nothing is held."""


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    return address.is_global and not address.is_multicast and not address.is_reserved


def _inside(address: IPv4Address | IPv6Address) -> list[IPv4Address]:
    """IPv4 addresses that an IPv6 one stands for."""
    if isinstance(address, IPv4Address):
        return []
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64 or address in _LOCAL_NAT64:
        found.append(IPv4Address(int(address) & 0xFFFF_FFFF))
    return [each for each in found if each is not None]


def _literal(name: str) -> IPv4Address | IPv6Address | None:
    """The address that a host is written as: also 127.1, 2130706433 and 0x7f.1, as resolvers do."""
    try:
        return ip_address(name)
    except ValueError:
        last = name.rpartition(".")[2]
    if not last.isdigit() and not last.startswith("0x"):  # no top-level domain is a number
        return None
    try:
        return IPv4Address(socket.inet_aton(name))
    except OSError:
        return None


def _network(name: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(name, strict=False)
    except ValueError:
        return None
