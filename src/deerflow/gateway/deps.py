"""What routes ask for: the open runtime, who calls, and a thread that is theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Depends, Path
from starlette.requests import HTTPConnection

from deerflow.errors import AuthError, ForbiddenError
from deerflow.gateway.config import GatewayConfig
from deerflow.runtime.checks import no_thread
from deerflow.storage.protocol import ThreadRow

if TYPE_CHECKING:  # opened in a thread, after the port listens
    from deerflow.wiring.runtime import Runtime

SIGNED_OUT = "deerflow.signed_out"
"""Key of the scope: an async function that returns when the caller is no longer signed in, for
answers that last. Without sign-in it is not there."""

Permission = Literal[
    "threads:read",
    "threads:write",
    "threads:delete",
    "runs:create",
    "runs:read",
    "runs:cancel",
    "account:read",
    "account:write",
    "admin",
]
"""What a route needs. `account:*` covers what belongs to a person rather than to a thread: memory,
skills, agents, models, preferences. `admin` needs the role as well."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls.

    Attributes:
        user_id: owner of what they may see.
        role: admin or user.
        kind: session (cookie), api (token), or open (sign-in is switched off).
        scopes: permissions of an API token; None = all that the role has.
        email: of the account, "" when there is none.
        token_id: of the session or token, "" when there is none.
    """

    user_id: str
    role: str = "user"
    kind: Literal["session", "api", "open"] = "session"
    scopes: frozenset[str] | None = None
    email: str = ""
    token_id: str = ""

    def may(self, permission: Permission) -> bool:
        """Whether role and scopes allow it."""
        if permission == "admin" and self.role != "admin":
            return False
        return self.scopes is None or permission in self.scopes


@dataclass(slots=True)
class Gateway:
    """Everything of a serving process; `app.state.gateway`.

    Attributes:
        config: of the process.
        runtime: open once the process is ready; routes answer 503 until then.
        stopping: set when the process ends: streams close, so that their clients reconnect.
        streams: clients that read a stream now.
        extra: what parts of the gateway keep for themselves, by class.
    """

    config: GatewayConfig
    runtime: Runtime
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    streams: int = 0
    extra: dict[type, Any] = field(default_factory=dict[type, Any])


def gateway_of(request: HTTPConnection) -> Gateway:
    """The open gateway of a request."""
    return request.app.state.gateway


def caller_of(request: HTTPConnection) -> Caller:
    """Who calls, as `gateway.auth` has found out.

    Raises:
        AuthError: nobody is signed in.
    """
    found: Caller | None = request.scope.get("deerflow.caller")
    if found is None:
        raise AuthError("Sign in first.", cure="Log in, or send an API token.")
    return found


async def open_gateway(request: HTTPConnection) -> Gateway:
    """`gateway_of` as a dependency: FastAPI hands functions that are not async to a thread."""
    return gateway_of(request)


async def signed_in(request: HTTPConnection) -> Caller:
    """`caller_of` as a dependency."""
    return caller_of(request)


def needs(permission: Permission) -> Any:
    """A dependency that gives the caller, when they have the permission.

    Raises (in the request):
        AuthError: nobody is signed in.
        ForbiddenError: the token or the role lacks it.
    """

    async def check(who: Annotated[Caller, Depends(signed_in)]) -> Caller:
        if not who.may(permission):
            raise ForbiddenError(f"This needs the permission {permission}.")
        return who

    check.permission = permission  # type: ignore[attr-defined]  # read by tests of the route table
    return Depends(check)


def own_thread(permission: Permission) -> Callable[..., Any]:
    """A dependency that gives the caller's thread named in the path, when they may.

    Raises (in the request):
        NotFoundError: unknown or someone else's.
    """

    async def find(
        request: HTTPConnection,
        thread_id: Annotated[str, Path(max_length=255)],
        who: Caller = needs(permission),  # noqa: B008  (annotations see no local names)
    ) -> ThreadRow:
        storage = gateway_of(request).runtime.harness.storage
        row = await storage.threads.get(who.user_id, thread_id)
        if row is None:
            raise no_thread(thread_id)
        return row

    return find


Open = Annotated[Gateway, Depends(open_gateway)]
ThreadRead = Annotated[ThreadRow, Depends(own_thread("threads:read"))]
ThreadWrite = Annotated[ThreadRow, Depends(own_thread("threads:write"))]
ThreadDelete = Annotated[ThreadRow, Depends(own_thread("threads:delete"))]
RunsOfThread = Annotated[ThreadRow, Depends(own_thread("runs:read"))]
