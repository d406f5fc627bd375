"""What a serving process is told on its command line and by its environment."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """Settings of one serving process.

    Attributes:
        host: address that it listens on.
        port: of it.
        execute: whether this process executes runs as well.
        web: folder with the files of the web UI, None for the API alone.
        auth_disabled: DEER_FLOW_AUTH_DISABLED=1: every caller is the local user.
        public_url: address that people use, "" when it is the one that it listens on.
        cookies_secure: whether cookies are sent over HTTPS only.
        proxies: addresses whose forwarding headers are believed.
        origins: other sites whose pages may call the API (CORS); none by default.
        hosts: host names that requests may name; () = any.
    """

    host: str = "127.0.0.1"
    port: int = 2026
    execute: bool = True
    web: Path | None = None
    auth_disabled: bool = False
    public_url: str = ""
    cookies_secure: bool = False
    proxies: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether an address or name is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return False
