"""Everything about sign-in that an open process keeps: made once, next to the runtime."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from starlette.requests import HTTPConnection

from deerflow.config.access import AuthConfig
from deerflow.gateway.auth.address import client_address
from deerflow.gateway.auth.limits import LoginLimits
from deerflow.gateway.auth.passwords import Passwords
from deerflow.gateway.auth.sessions import Sessions
from deerflow.gateway.config import GatewayConfig
from deerflow.gateway.deps import Gateway
from deerflow.storage.protocol import Accounts, AuditRow
from deerflow.wiring.harness import Harness


@dataclass(frozen=True, slots=True)
class Access:
    """Sign-in of one process.

    Attributes:
        harness: whose configuration counts, also after it was read again.
        process: settings of the process.
        accounts: where they are kept.
        passwords: hashes.
        sessions: who is signed in.
        limits: how often a login may fail.
    """

    harness: Harness
    process: GatewayConfig
    accounts: Accounts
    passwords: Passwords
    sessions: Sessions
    limits: LoginLimits

    @property
    def config(self) -> AuthConfig:
        """`auth` of the configuration."""
        return self.harness.loaded.config.auth

    @classmethod
    def of(cls, gateway: Gateway) -> Access:
        """Of an open gateway; always the same one."""
        found = gateway.extra.get(cls)
        if found is None:
            harness = gateway.runtime.harness
            accounts = harness.storage.accounts
            found = gateway.extra[cls] = cls(
                harness,
                gateway.config,
                accounts,
                Passwords(),
                Sessions(accounts),
                LoginLimits(accounts),
            )
        return found

    def address(self, connection: HTTPConnection) -> str:
        """Of the caller."""
        return client_address(connection, self.process)

    async def note(
        self, action: str, user_id: str, connection: HTTPConnection, **data: Any
    ) -> None:
        """Enter into the audit: who did what from where; never a secret."""
        target = str(data.pop("target", ""))
        await self.accounts.note(
            AuditRow(time.time(), user_id, action, target, self.address(connection), data)
        )
