"""Webhooks: tells an address that a run has ended; signed, retried, and kept off inner networks.

A call is a POST with JSON: {type: "run.ended", run_id, thread_id, status, stop_reason, metadata,
outcome, error, usage, created_at, started_at, ended_at}; times are UTC seconds. It is signed as
standardwebhooks.com says: `webhook-id` names the call and stays the same when it is repeated,
`webhook-timestamp` is UTC seconds, `webhook-signature` is `v1,` and the base64 of the HMAC-SHA256
of `id.timestamp.body` under the installation's secret.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import logging
import random
import secrets
import time
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson

from deerflow.config.storage import RuntimeConfig
from deerflow.errors import UsageError
from deerflow.runtime.outward import Outward, RefusedAddressError
from deerflow.storage.protocol import Delivery, RunRow, Storage, ThreadRow

logger = logging.getLogger(__name__)

LONGEST_URL = 2_048
SECONDS = 15.0
"""Of one call: resolving, connecting, sending, and the receiver's answer."""
CLAIM_SECONDS = 60.0
"""After which a call that its process did not bring to an end is made by another one."""
FIRST_WAIT = 5.0
LONGEST_WAIT = 3_600.0
MOST_ATTEMPTS = 33
"""Waits double from 5 s to an hour: 33 attempts are about 24 hours."""
AT_ONCE = 10
GONE = 410
"""The receiver wants no more calls."""
SECRET = "webhook_secret"  # noqa: S105  # its name, not itself
PREFIX = "whsec_"


class Webhooks:
    """The outbox of webhooks.

    Args:
        storage: the stores; its secret is kept in the database.
        config: section `runtime`; `webhook_hosts` are inner hosts that may be called.
        clock: UTC seconds.
    """

    def __init__(
        self, storage: Storage, config: RuntimeConfig, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._storage = storage
        self._outward = Outward(config.webhook_hosts)
        self._given = config.webhook_secret
        self._clock = clock

    def check(self, url: str) -> None:
        """Refuse an address that can never be called; names are looked up when they are called.

        Raises:
            UsageError: it is none, too long, holds a password, or belongs to an inner network.
        """
        cure = "Give an https address without a user name in it."
        try:
            parts = urlsplit(url)
            host = parts.hostname or ""
            _ = parts.port
        except ValueError:
            raise UsageError("The webhook is no address.", cure=cure) from None
        if parts.scheme not in ("http", "https") or not host or parts.username is not None:
            raise UsageError("The webhook is no http or https address.", cure=cure)
        if len(url) > LONGEST_URL or not url.isprintable() or " " in url:
            raise UsageError(f"A webhook has at most {LONGEST_URL} printable characters.")
        try:
            self._outward.check_literal(host)
        except RefusedAddressError:
            raise UsageError(
                f"The webhook {host} belongs to an inner network.",
                cure="An administrator can allow it by `runtime.webhook_hosts`.",
            ) from None

    async def tick(self) -> int:
        """Make the calls that are due, in any process; returns how many were tried."""
        due = await self._storage.deliveries.claim(
            now=self._clock(), seconds=CLAIM_SECONDS, limit=AT_ONCE
        )
        if due:
            secret = await self.secret()
            async with self._outward.session(SECONDS) as session:
                await asyncio.gather(*(self._deliver(session, row, secret) for row in due))
        return len(due)

    async def secret(self) -> str:
        """The configured secret, or one that is made when it is first needed."""
        if self._given:
            return self._given
        documents = self._storage.documents
        found = await documents.preference("", SECRET)
        if not isinstance(found, str):
            made = PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()
            await documents.prefer("", SECRET, made)
            found = await documents.preference("", SECRET)  # another process may have been quicker
        return str(found)

    async def _deliver(self, session: aiohttp.ClientSession, row: Delivery, secret: str) -> None:
        """One call, and what becomes of it."""
        deliveries = self._storage.deliveries
        body = await self._body(row)
        if body is None:
            await deliveries.settle(row.delivery_id, "failed")
            return
        problem, final = await self._call(session, row, body, secret)
        if not problem:
            await deliveries.settle(row.delivery_id, "done")
            return
        last = final or row.attempts >= MOST_ATTEMPTS
        host = urlsplit(row.url).hostname
        logger.info("webhook of run %s to %s: %s%s", row.run_id, host, problem, "; given up" * last)
        if last:
            await deliveries.settle(row.delivery_id, "failed")
        else:
            due = self._clock() + wait_after(row.attempts)
            await deliveries.settle(row.delivery_id, "pending", due_at=due)

    async def _body(self, row: Delivery) -> bytes | None:
        """What is told; None when the run or its thread is gone."""
        threads = self._storage.threads
        run, thread = await threads.run(row.run_id), await threads.by_key(row.thread_key)
        if run is None or thread is None:
            return None
        return orjson.dumps(told(run, thread.thread_id), default=str)

    async def _call(
        self, session: aiohttp.ClientSession, row: Delivery, body: bytes, secret: str
    ) -> tuple[str, bool]:
        """What went wrong, "" when nothing did, and whether it is useless to try again."""
        stamp = str(int(self._clock()))
        headers = {
            "content-type": "application/json",
            "user-agent": "deerflow-webhook/1",
            "webhook-id": row.delivery_id,
            "webhook-timestamp": stamp,
            "webhook-signature": signature(secret, row.delivery_id, stamp, body),
        }
        try:
            self.check(row.url)  # the configuration may have changed since
            async with session.post(
                row.url, data=body, headers=headers, allow_redirects=False
            ) as answer:
                status = answer.status  # its body is not read
        except (RefusedAddressError, UsageError):
            return "the address belongs to an inner network", True
        except aiohttp.ClientConnectorError as error:
            refused = isinstance(error.os_error, RefusedAddressError)
            what = "the address belongs to an inner network" if refused else "no connection"
            return what, refused
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            return type(error).__name__, False
        if 200 <= status < 300:
            return "", False
        return f"status {status}", status == GONE


def call_for(thread: ThreadRow, run_id: str, url: str | None) -> Delivery | None:
    """The row of an address that is to be called when a run has ended; None without one."""
    if url is None:
        return None
    return Delivery(uuid.uuid4().hex, thread.user_id, thread.thread_key, run_id, url)


def told(run: RunRow, thread_id: str) -> dict[str, Any]:
    """What a receiver is told of a run."""
    cancelled = run.status == "cancelled"
    return {
        "type": "run.ended",
        "run_id": run.run_id,
        "thread_id": thread_id,
        "status": "interrupted" if cancelled else run.status,
        "stop_reason": "cancelled" if cancelled else None,
        "metadata": run.metadata,
        "outcome": run.outcome,
        "error": run.error,
        "usage": run.usage,
        "created_at": run.created_at,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
    }


def signature(secret: str, ident: str, stamp: str, body: bytes) -> str:
    """The header `webhook-signature`; the key is what `whsec_` begins, decoded, or the text."""
    key = secret.encode()
    if secret.startswith(PREFIX):
        key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = f"{ident}.{stamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def wait_after(attempts: int) -> float:
    """Seconds until the next attempt: doubled each time, spread by half so that none pile up."""
    wait = min(FIRST_WAIT * 2.0 ** max(0, attempts - 1), LONGEST_WAIT)
    return wait * random.uniform(0.75, 1.25)  # noqa: S311  # no secret
