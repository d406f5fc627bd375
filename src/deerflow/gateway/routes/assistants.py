"""Assistants: the built-in agent, custom agents, and stored settings of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import uuid4

from fastapi import APIRouter, Depends, Response
from pydantic import Field

from deerflow.gateway.assistants import Assistant, Assistants
from deerflow.gateway.deps import Caller, Open, Permission, needs
from deerflow.gateway.routes.bodies import Body, Count, Ident, Json, Metadata, Offset
from deerflow.gateway.wire import LEAD

router = APIRouter(prefix="/assistants", tags=["assistants"])


class AssistantBody(Body):
    """An assistant to be stored."""

    graph_id: Ident | None = None
    assistant_id: Ident | None = None
    name: str | None = Field(None, max_length=255)
    description: str | None = Field(None, max_length=10_000)
    config: Json | None = None
    context: Json | None = None
    metadata: Metadata | None = None
    if_exists: Literal["raise", "do_nothing"] = "raise"


class AssistantPatch(Body):
    """What changes of an assistant."""

    graph_id: Ident | None = None
    name: str | None = Field(None, max_length=255)
    description: str | None = Field(None, max_length=10_000)
    config: Json | None = None
    context: Json | None = None
    metadata: Metadata | None = None


class AssistantSearch(Body):
    """Which assistants."""

    metadata: Json | None = None
    graph_id: str | None = None
    name: str | None = None
    limit: Count = 10
    offset: Offset = 0
    sort_by: Literal["assistant_id", "graph_id", "name", "created_at", "updated_at"] | None = None
    sort_order: Literal["asc", "desc"] = "desc"
    select: list[str] | None = None

    def fits(self, found: Assistant) -> bool:
        """Whether an assistant is asked for."""
        if self.graph_id and self.graph_id != found.graph_id:
            return False
        if self.name and self.name.lower() not in found.name.lower():
            return False
        return all(found.metadata.get(k) == v for k, v in (self.metadata or {}).items())


class VersionSearch(Body):
    """Which versions."""

    metadata: Json | None = None
    limit: Count = 10
    offset: Offset = 0


class VersionBody(Body):
    """A version to go back to."""

    version: Annotated[int, Field(ge=1, le=2**31)]


def _mine(permission: Permission) -> Any:
    def find(gate: Open, who: Caller = needs(permission)) -> Assistants:  # noqa: B008  (see deps)
        return Assistants(gate, who)

    return Depends(find)


Readable = Annotated[Assistants, _mine("account:read")]
Writable = Annotated[Assistants, _mine("account:write")]


@router.post("", summary="Store an assistant")
async def create(given: AssistantBody, mine: Writable) -> dict[str, Any]:
    """409 when there is one of this id, unless `if_exists` is `do_nothing`."""
    ident = given.assistant_id or str(uuid4())
    assistant = Assistant(
        ident,
        given.graph_id or LEAD,
        given.name or given.graph_id or LEAD,
        given.description,
        given.config or {},
        given.context or {},
        given.metadata or {},
    )
    return (await mine.create(assistant, keep=given.if_exists == "do_nothing")).as_dict()


@router.post("/search", summary="Find assistants")
async def search(
    given: AssistantSearch, mine: Readable, response: Response
) -> list[dict[str, Any]]:
    """`X-Pagination-Next` has the offset of the next page, when there is one."""
    found = [assistant for assistant in await mine.all() if given.fits(assistant)]
    if given.sort_by:
        key = given.sort_by
        found.sort(key=lambda item: getattr(item, key), reverse=given.sort_order == "desc")
    end = given.offset + given.limit
    if len(found) > end:
        response.headers["X-Pagination-Next"] = str(end)
    rows = [assistant.as_dict() for assistant in found[given.offset : end]]
    if given.select is None:
        return rows
    return [{k: v for k, v in row.items() if k in given.select} for row in rows]


@router.post("/count", summary="Count assistants")
async def count(given: AssistantSearch, mine: Readable) -> int:
    """How many a search would find."""
    return sum(given.fits(assistant) for assistant in await mine.all())


@router.get("/{assistant_id}", summary="An assistant")
async def get(assistant_id: Ident, mine: Readable) -> dict[str, Any]:
    """By its id."""
    return (await mine.get(assistant_id)).as_dict()


@router.patch("/{assistant_id}", summary="Change an assistant")
async def patch(assistant_id: Ident, given: AssistantPatch, mine: Writable) -> dict[str, Any]:
    """A new version of a stored one."""
    changes = given.model_dump(exclude_unset=True, exclude_none=True)
    return (await mine.change(assistant_id, changes)).as_dict()


@router.delete("/{assistant_id}", status_code=204, summary="Remove an assistant")
async def delete(assistant_id: Ident, mine: Writable) -> Response:
    """A stored one, with all its versions."""
    await mine.delete(assistant_id)
    return Response(status_code=204)


@router.get("/{assistant_id}/graph", summary="The graph of an assistant")
async def graph(assistant_id: Ident, mine: Readable) -> dict[str, Any]:
    """Nodes and edges: a model and its tools."""
    await mine.get(assistant_id)
    return GRAPH


@router.get("/{assistant_id}/schemas", summary="Schemas of an assistant")
async def schemas(assistant_id: Ident, mine: Readable) -> dict[str, Any]:
    """JSON schemas of input, output, state and context."""
    found = await mine.get(assistant_id)
    return {"graph_id": found.graph_id, **SCHEMAS}


@router.get("/{assistant_id}/subgraphs", summary="Subgraphs of an assistant")
async def subgraphs(assistant_id: Ident, mine: Readable) -> dict[str, Any]:
    """None: children are started by a tool."""
    await mine.get(assistant_id)
    return {}


@router.get("/{assistant_id}/subgraphs/{namespace}", summary="A subgraph of an assistant")
async def subgraph(assistant_id: Ident, namespace: Ident, mine: Readable) -> dict[str, Any]:
    """None: children are started by a tool."""
    del namespace
    await mine.get(assistant_id)
    return {}


@router.post("/{assistant_id}/versions", summary="Versions of an assistant")
async def versions(
    assistant_id: Ident, given: VersionSearch, mine: Readable
) -> list[dict[str, Any]]:
    """Newest first."""
    wanted = (given.metadata or {}).items()
    found = [
        version
        for version in await mine.versions(assistant_id)
        if all(version.metadata.get(k) == v for k, v in wanted)
    ]
    return [item.as_dict() for item in found[given.offset : given.offset + given.limit]]


@router.post("/{assistant_id}/latest", summary="Go back to a version of an assistant")
async def latest(assistant_id: Ident, given: VersionBody, mine: Writable) -> dict[str, Any]:
    """The version counts again."""
    return (await mine.set_latest(assistant_id, given.version)).as_dict()


GRAPH: dict[str, Any] = {
    "nodes": [
        {"id": "__start__", "type": "schema", "data": "__start__"},
        {"id": "model", "type": "runnable", "data": {"name": "model"}},
        {"id": "tools", "type": "runnable", "data": {"name": "tools"}},
        {"id": "__end__", "type": "schema", "data": "__end__"},
    ],
    "edges": [
        {"source": "__start__", "target": "model"},
        {"source": "model", "target": "tools", "conditional": True},
        {"source": "model", "target": "__end__", "conditional": True},
        {"source": "tools", "target": "model"},
    ],
}

_MESSAGE = {
    "type": "object",
    "properties": {
        "type": {"enum": ["human", "ai", "tool", "system"]},
        "id": {"type": "string"},
        "content": {"type": ["string", "array"]},
        "additional_kwargs": {"type": "object"},
    },
    "required": ["content"],
}
_MESSAGES = {"type": "array", "items": _MESSAGE}
_STATE = {
    "type": "object",
    "title": "ThreadState",
    "properties": {
        "messages": _MESSAGES,
        "title": {"type": "string"},
        "artifacts": {"type": "array", "items": {"type": "string"}},
        "todos": {"type": "array", "items": {"type": "object"}},
        "goal": {"type": ["object", "null"]},
        "uploaded_files": {"type": "array", "items": {"type": "object"}},
    },
}
_FLAG = {"type": "boolean"}
_CONTEXT = {
    "type": "object",
    "title": "Context",
    "properties": {
        "model_name": {"type": "string"},
        "mode": {"enum": ["flash", "thinking", "pro", "ultra"]},
        "thinking_enabled": _FLAG,
        "reasoning_effort": {"type": "string"},
        "is_plan_mode": _FLAG,
        "subagent_enabled": _FLAG,
        "agent_name": {"type": "string"},
    },
}
SCHEMAS: dict[str, Any] = {
    "input_schema": {
        "type": "object",
        "title": "Input",
        "properties": {"messages": _MESSAGES},
        "required": ["messages"],
    },
    "output_schema": _STATE,
    "state_schema": _STATE,
    "config_schema": {"type": "object", "properties": {"recursion_limit": {"type": "integer"}}},
    "context_schema": _CONTEXT,
}
