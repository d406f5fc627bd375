"""MCP servers of the configuration, as people switch them; tasks of them in a thread."""

from __future__ import annotations

import json
from typing import Annotated, Any, cast

from fastapi import APIRouter
from pydantic import BaseModel, Field, ValidationError
from starlette.requests import Request

from deerflow.config.extensions import McpServerConfig
from deerflow.config.section import masked
from deerflow.errors import ForbiddenError, NotFoundError, UsageError
from deerflow.gateway.auth.access import Access
from deerflow.gateway.deps import Caller, Gateway, Open, ThreadRead, ThreadWrite, needs
from deerflow.gateway.extensions import Extensions
from deerflow.gateway.routes.bodies import Body, Count, Ident, Json

router = APIRouter(tags=["mcp"])

Reader = Annotated[Caller, needs("account:read")]
Admin = Annotated[Caller, needs("admin")]
MASK = "***"
ON_HOST = ("type", "command", "args", "env")
"""Fields of a stdio server that only the file may say: they decide what runs on this host."""


class ServersBody(Body):
    """All servers by name; a masked value stays as it is."""

    mcp_servers: dict[str, Json] = Field(max_length=200)


class SwitchBody(Body):
    """A server, on or off."""

    server_name: Ident
    enabled: bool


class Servers(BaseModel):
    """Servers by name, without a secret; people who are no admin see what they are for."""

    mcp_servers: dict[str, dict[str, Any]]


class Done(BaseModel):
    """That it is done, in a sentence."""

    success: bool
    message: str


class McpTasks(BaseModel):
    """Long tasks of a thread."""

    tasks: list[dict[str, Any]]


@router.get("/mcp/config", summary="The MCP servers")
async def get(gate: Open, who: Reader) -> Servers:
    """Secrets are masked."""
    return _shown(gate, who)


@router.patch("/mcp/config", summary="Switch an MCP server on or off")
async def switch(request: Request, given: SwitchBody, gate: Open, who: Admin) -> Servers:
    """For everybody; kept in extensions_config.json."""

    def change(raw: dict[str, Any]) -> None:
        server = _servers(raw).get(given.server_name)
        if not isinstance(server, dict):
            raise NotFoundError(f"There is no MCP server {given.server_name[:80]!r}.")
        server["enabled"] = given.enabled

    await _change(gate, change)
    await _note(gate, request, who, given.server_name, enabled=given.enabled)
    return _shown(gate, who)


@router.put("/mcp/config", summary="Replace the MCP servers")
async def put(request: Request, given: ServersBody, gate: Open, who: Admin) -> Servers:
    """Servers that run a program on this host are only switched and described here.

    403 for a new one, or another program: name it in extensions_config.json. Values that hold a
    variable are taken from there too.
    """
    shown = _shown(gate, who).mcp_servers

    def change(raw: dict[str, Any]) -> None:
        before, servers = _servers(raw), given.mcp_servers
        fresh = {name: _merged(name, new, before, shown) for name, new in servers.items()}
        before.clear()
        before.update(fresh)

    await _change(gate, change)
    await _note(gate, request, who, "", servers=sorted(given.mcp_servers))
    return _shown(gate, who)


@router.post("/mcp/cache/reset", summary="Forget what MCP servers said of their tools")
async def reset(who: Admin) -> Done:
    """They are asked again when they are next used."""
    return Done(success=True, message="Nothing is cached.")


@router.get("/threads/{thread_id}/mcp-tasks", summary="Long tasks of MCP servers")
async def tasks(thread: ThreadRead, limit: Count = 20) -> McpTasks:
    """None: this server runs no such tasks."""
    return McpTasks(tasks=[])


@router.get("/threads/{thread_id}/mcp-tasks/{task_id}", summary="A long task")
async def task(thread: ThreadRead, task_id: Ident) -> dict[str, Any]:
    """404: there is none."""
    raise _no_task(task_id)


@router.post("/threads/{thread_id}/mcp-tasks/{task_id}/cancel", summary="Stop a long task")
async def cancel(thread: ThreadWrite, task_id: Ident) -> dict[str, Any]:
    """404: there is none."""
    raise _no_task(task_id)


def _no_task(task_id: str) -> NotFoundError:
    return NotFoundError(f"There is no task {task_id[:80]!r} here.")


async def _change(gate: Gateway, change: Any) -> None:
    file = gate.extra.setdefault(Extensions, Extensions())
    await file.change(gate.runtime.harness, change)


async def _note(gate: Gateway, request: Request, who: Caller, target: str, **data: Any) -> None:
    await Access.of(gate).note("mcp_config", who.user_id, request, target=target, **data)


def _shown(gate: Gateway, who: Caller) -> Servers:
    found: dict[str, dict[str, Any]] = {}
    for name, server in gate.runtime.harness.loaded.extensions.mcp_servers.items():
        whole = masked(server.model_dump(mode="json"))
        if not who.may("admin"):
            whole = {key: whole[key] for key in ("enabled", "type", "description")}
        found[name] = whole
    return Servers(mcp_servers=found)


def _servers(raw: dict[str, Any]) -> dict[str, Any]:
    """The servers in the object of the file, under either name of the key."""
    key = "mcp_servers" if "mcp_servers" in raw else "mcpServers"
    found: Any = raw.setdefault(key, {})
    if not isinstance(found, dict):
        raise UsageError(f"extensions_config.json: {key} holds no servers.")
    return cast("dict[str, Any]", found)


def _merged(
    name: str, new: dict[str, Any], before: dict[str, Any], shown: dict[str, Any]
) -> dict[str, Any]:
    """A server as it is to be written.

    Args:
        name: of the server.
        new: as it was sent.
        before: the servers as the file says.
        shown: the servers as `GET` shows them.

    Raises:
        ForbiddenError: it would change what runs on this host.
        UsageError: a value of the wrong form, a variable, or a mask at a new address.
    """
    known: Any = before.get(name)
    old = cast("dict[str, Any]", known) if isinstance(known, dict) else {}
    given: dict[str, Any] = _kept(new, old, shown.get(name))
    given |= {field: old[field] for field in ON_HOST if field in old and field not in given}
    if "stdio" in (given.get("type", "stdio"), old.get("type", "stdio" if old else "")):
        _check_host(name, given, old)
    if old and _addresses(given) != _addresses(old):  # a secret must not go to another address
        given = _kept(new, {}, {})
    if MASK in json.dumps(given):
        raise UsageError(f"mcp_servers.{name[:80]}: give the masked values anew.")
    try:
        McpServerConfig.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, (name, *first["loc"])))
        raise UsageError(f"mcp_servers.{place}: {first['msg']}.") from error
    return given


def _check_host(name: str, given: dict[str, Any], old: dict[str, Any]) -> None:
    """Raise ForbiddenError when what runs on this host would be another."""
    if not old or any(given.get(field) != old.get(field) for field in ON_HOST):
        raise ForbiddenError(
            f"The MCP server {name[:80]!r} runs a program on this host.",
            cure="Name it, or change it, in extensions_config.json.",
        )


def _addresses(server: dict[str, Any]) -> tuple[Any, Any]:
    """Where secrets of a server go."""
    oauth: Any = server.get("oauth")
    grant = cast("dict[str, Any]", oauth) if isinstance(oauth, dict) else {}
    return server.get("url"), grant.get("token_url")


def _kept(new: Any, old: Any, shown: Any) -> Any:
    """New settings; what is as it was shown is as the file has it, and left out where it has none.

    Raises:
        UsageError: a value with a variable that the file does not have there.
    """
    if isinstance(new, dict):
        before = cast("dict[str, Any]", old) if isinstance(old, dict) else {}
        seen = cast("dict[str, Any]", shown) if isinstance(shown, dict) else {}
        found: dict[str, Any] = {}
        for key, value in cast("dict[str, Any]", new).items():
            if key in seen and value == seen[key]:
                found |= {key: before[key]} if key in before else {}
            else:
                found[key] = _kept(value, before.get(key), seen.get(key))
        return found
    if new != old and "$" in json.dumps(new):
        raise UsageError(
            "Variables are named in the file alone.", cure="Write it into extensions_config.json."
        )
    return new
