"""Custom agents of the caller, and what they say of themselves to all agents."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from deerflow.errors import ConfigError, ConflictError, ForbiddenError, NotFoundError, UsageError
from deerflow.gateway.deps import Caller, Gateway, Open, needs
from deerflow.gateway.routes.bodies import Body, Json
from deerflow.lead.profiles import ACCEPTED, MAX_SOUL, NAME, FolderProfiles, LeadProfile, check_name
from deerflow.wiring.harness import Harness

router = APIRouter(tags=["agents"])

Reader = Annotated[Caller, needs("account:read")]
Writer = Annotated[Caller, needs("account:write")]
Name = Annotated[str, Field(min_length=1, max_length=255)]
Names = Annotated[list[Annotated[str, Field(max_length=255)]], Field(max_length=500)]
RESERVED = ("check", "lead_agent")
"""Names that mean something else on the wire."""
PROFILE = "user_profile"
"""Preference that holds the caller's own words about themselves."""


class AgentPatch(Body):
    """An agent; fields that are not sent stay. `soul` is what it is told in every run."""

    description: str | None = Field(None, max_length=2000)
    soul: str | None = Field(None, max_length=MAX_SOUL)
    model: str | None = Field(None, max_length=255)
    tools: Names | None = None
    skills: Names | None = None
    max_turns: int | None = Field(None, ge=1, le=100_000)
    tool_groups: Names | None = None
    model_settings: Json | None = None
    thinking_enabled: bool | None = None
    reasoning_effort: str | None = Field(None, max_length=32)


class AgentBody(AgentPatch):
    """A new agent."""

    name: Name


class Agent(BaseModel):
    """A custom agent; `soul` is null in lists, `problem` says why its files cannot be used."""

    name: str
    description: str = ""
    soul: str | None = None
    model: str | None = None
    tools: list[str] | None = None
    skills: list[str] | None = None
    max_turns: int | None = None
    tool_groups: list[str] | None = None
    model_settings: dict[str, Any] | None = None
    thinking_enabled: bool | None = None
    reasoning_effort: str | None = None
    problem: str | None = None


class AgentList(BaseModel):
    """Agents by name."""

    agents: list[Agent]


class Available(BaseModel):
    """Whether a name can be taken; `reason` says why not."""

    available: bool
    name: str
    reason: str | None = None


class ProfileBody(Body):
    """What the caller says of themselves."""

    content: str = Field(max_length=MAX_SOUL)


class Profile(BaseModel):
    """Null when nothing was said."""

    content: str | None


@router.get("/agents", summary="List my agents")
async def listing(gate: Open, who: Reader) -> AgentList:
    """By name, without their souls."""
    profiles = _profiles(gate)
    found: list[Agent] = []
    for name in await profiles.list(who.user_id):
        try:
            agent = await _agent(profiles, who, name)
        except ConfigError as error:
            found.append(Agent(name=name, problem=str(error)))
        except NotFoundError:  # removed just now
            continue
        else:
            found.append(agent.model_copy(update={"soul": None}))
    return AgentList(agents=found)


@router.get("/agents/check", summary="Whether a name can be taken")
async def check(
    gate: Open, who: Reader, name: Annotated[str, Query(min_length=1, max_length=255)]
) -> Available:
    """Valid, and not taken by another agent of the caller."""
    profiles = _profiles(gate)
    if not NAME.fullmatch(name) or name in RESERVED:
        reason = "Use up to 64 letters, digits, hyphens and underscores."
        return Available(available=False, name=name, reason=reason)
    if name in await profiles.list(who.user_id):
        return Available(available=False, name=name, reason="You have an agent of this name.")
    return Available(available=True, name=name)


@router.post("/agents", status_code=201, summary="Make an agent")
async def create(given: AgentBody, gate: Open, who: Writer) -> Agent:
    """409 when there is one of this name."""
    profiles = _profiles(gate)
    check_name(given.name)
    if given.name in RESERVED or given.name in await profiles.list(who.user_id):
        raise ConflictError(f"The name {given.name!r} is taken.")
    await _save(gate, who, LeadProfile(name=given.name), given, {})
    return await _agent(profiles, who, given.name)


@router.get("/agents/{name}", summary="An agent")
async def get(name: Name, gate: Open, who: Reader) -> Agent:
    """With its soul."""
    return await _agent(_profiles(gate), who, name)


@router.put("/agents/{name}", summary="Change an agent")
async def put(name: Name, given: AgentPatch, gate: Open, who: Writer) -> Agent:
    """Its next run is led by what it is then."""
    profiles = _profiles(gate)
    before = await profiles.get(who.user_id, name)
    await _save(gate, who, before, given, await profiles.accepted(who.user_id, name))
    return await _agent(profiles, who, name)


@router.delete("/agents/{name}", status_code=204, summary="Remove an agent")
async def delete(name: Name, gate: Open, who: Writer) -> Response:
    """Threads that it led stay."""
    profiles = _profiles(gate)
    if not await profiles.delete(who.user_id, name):
        await profiles.get(who.user_id, name)  # says what is near
        raise NotFoundError(f"There is no agent {name[:80]!r}.")
    return Response(status_code=204)


@router.get("/user-profile", summary="What I say of myself")
async def profile(gate: Open, who: Reader) -> Profile:
    """Null when nothing was said."""
    documents = gate.runtime.harness.storage.documents
    found = await documents.preference(who.user_id, PROFILE)
    return Profile(content=found if isinstance(found, str) else None)


@router.put("/user-profile", summary="Say something of myself")
async def set_profile(given: ProfileBody, gate: Open, who: Writer) -> Profile:
    """An empty text takes it back."""
    documents = gate.runtime.harness.storage.documents
    await documents.prefer(who.user_id, PROFILE, given.content or None)
    return Profile(content=given.content or None)


def _profiles(gate: Gateway) -> FolderProfiles:
    """Raises ForbiddenError when `agents_api.enabled` is false."""
    harness = gate.runtime.harness
    if not harness.loaded.config.agents_api.enabled:
        raise ForbiddenError(
            "Custom agents are not managed over HTTP here.", cure="Set agents_api.enabled: true."
        )
    return harness.profiles


async def _agent(profiles: FolderProfiles, who: Caller, name: str) -> Agent:
    found = await profiles.get(who.user_id, name)
    return Agent(
        name=found.name,
        description=found.description,
        soul=found.soul,
        model=found.model,
        tools=None if found.tools is None else list(found.tools),
        skills=None if found.skills is None else list(found.skills),
        max_turns=found.max_turns,
        **await profiles.accepted(who.user_id, name),
    )


async def _save(
    gate: Gateway, who: Caller, before: LeadProfile, given: AgentPatch, accepted: dict[str, Any]
) -> None:
    sent = given.model_dump(exclude_unset=True, exclude={"name", *ACCEPTED})
    for field in ("tools", "skills"):
        if sent.get(field) is not None:
            sent[field] = tuple(sent[field])
    for field in ("description", "soul"):
        if field in sent:
            sent[field] = sent[field] or ""
    after = replace(before, **sent)
    _check_model(gate.runtime.harness, after.model)
    kept = accepted | given.model_dump(exclude_unset=True, include={*ACCEPTED})
    await _profiles(gate).save(who.user_id, after, accepted=kept)


def _check_model(harness: Harness, model: str | None) -> None:
    if model is not None and model not in harness.catalog.names():
        names = ", ".join(harness.catalog.names()) or "none"
        raise UsageError(f"There is no model {model[:80]!r}.", cure=f"Configured: {names}.")
