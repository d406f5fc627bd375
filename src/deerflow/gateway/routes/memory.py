"""What is remembered of the caller."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from deerflow.client.account import UserMemory
from deerflow.client.conversations import Desk
from deerflow.errors import ConflictError
from deerflow.gateway.deps import Caller, Gateway, Open, needs
from deerflow.gateway.routes.bodies import Body, Json
from deerflow.memory.protocol import (
    HISTORY_SUMMARIES,
    MAX_FACT_CHARS,
    USER_SUMMARIES,
    Category,
)

router = APIRouter(prefix="/memory", tags=["memory"])

Reader = Annotated[Caller, needs("account:read")]
Writer = Annotated[Caller, needs("account:write")]
FactId = Annotated[str, Field(min_length=1, max_length=255)]
Content = Annotated[str, Field(min_length=1, max_length=MAX_FACT_CHARS)]
Confidence = Annotated[float, Field(ge=0, le=1)]


class FactBody(Body):
    """A fact to be remembered."""

    content: Content
    category: Category = "context"
    confidence: Confidence = 1.0


class FactPatch(Body):
    """What changes of a fact; what is left out stays."""

    content: Content | None = None
    category: Category | None = None
    confidence: Confidence | None = None


class Layer(BaseModel):
    """A summary in prose; times are ISO 8601 in UTC, or ""."""

    summary: str
    updatedAt: str


class FactEntry(BaseModel):
    """A fact that holds, or with `supersededBy` one of the history (in exports alone)."""

    model_config = ConfigDict(extra="allow")

    id: str
    content: str
    category: str
    confidence: float
    createdAt: str
    source: str


class Remembered(BaseModel):
    """The whole memory of a user."""

    model_config = ConfigDict(extra="allow")

    version: str
    lastUpdated: str
    user: dict[str, Layer]
    history: dict[str, Layer]
    facts: list[FactEntry]


class MemorySettings(BaseModel):
    """How memory works here; nothing about where it is kept."""

    enabled: bool
    mode: str
    storage: str
    debounce_seconds: float
    max_facts: int
    fact_confidence_threshold: float
    injection_enabled: bool
    max_injection_tokens: int


class MemoryStatus(BaseModel):
    """How memory works, what is in it, and how many exchanges wait to be taken in."""

    config: MemorySettings
    data: Remembered
    pending: int


@router.get("", summary="The whole memory")
async def get(gate: Open, who: Reader) -> Remembered:
    """Summaries and the facts that hold; empty when memory is off."""
    return await _whole(gate, who)


@router.post("/reload", summary="The whole memory, read again")
async def reload(gate: Open, who: Reader) -> Remembered:
    """Files and tables are read at each request anyway."""
    return await _whole(gate, who)


@router.delete("", summary="Forget everything")
async def clear(gate: Open, who: Writer) -> Remembered:
    """History and exchanges that wait included; answers the empty memory."""
    await _memory(gate, who).clear()
    return await _whole(gate, who)


@router.post("/facts", summary="Remember a fact")
async def add(given: FactBody, gate: Open, who: Writer) -> Remembered:
    """A known fact is confirmed. Answers the whole memory."""
    await _memory(gate, who).add(
        given.content, category=given.category, confidence=given.confidence
    )
    return await _whole(gate, who)


@router.patch("/facts/{fact_id}", summary="Change a fact")
async def change(fact_id: FactId, given: FactPatch, gate: Open, who: Writer) -> Remembered:
    """The former one becomes history, the new one has another id. Answers the whole memory."""
    fields = given.model_dump(exclude_none=True)
    await _memory(gate, who).change(fact_id, **fields)
    return await _whole(gate, who)


@router.delete("/facts/{fact_id}", summary="Forget a fact")
async def forget(fact_id: FactId, gate: Open, who: Writer) -> Remembered:
    """Answers the whole memory."""
    await _memory(gate, who).forget(fact_id)
    return await _whole(gate, who)


@router.get("/export", summary="Everything, to be imported elsewhere")
async def export(gate: Open, who: Reader) -> Remembered:
    """With the facts of the history."""
    if gate.runtime.harness.memory is None:
        return _empty()
    return Remembered.model_validate(await _memory(gate, who).export())


@router.post("/import", summary="Take another memory in")
async def take_in(given: Json, gate: Open, who: Writer) -> Remembered:
    """What `export` gave, or a memory.json, beside what is there. Answers the whole memory."""
    await _memory(gate, who).take_in(given)
    return await _whole(gate, who)


@router.get("/config", summary="How memory works here")
async def config(gate: Open, who: Reader) -> MemorySettings:
    """Of the configuration."""
    return _settings(gate)


@router.get("/status", summary="How memory works here, and what is in it")
async def status(gate: Open, who: Reader) -> MemoryStatus:
    """Settings, data and what waits."""
    manager = gate.runtime.harness.memory
    pending = 0 if manager is None else await manager.pending(who.user_id)
    return MemoryStatus(config=_settings(gate), data=await _whole(gate, who), pending=pending)


def _memory(gate: Gateway, who: Caller) -> UserMemory:
    """The caller's. Raises ConflictError when memory is off."""
    if gate.runtime.harness.memory is None:
        raise ConflictError("Memory is off.", cure="Set memory.enabled in the configuration.")
    return UserMemory(Desk(gate.runtime.harness, who.user_id))


async def _whole(gate: Gateway, who: Caller) -> Remembered:
    if gate.runtime.harness.memory is None:
        return _empty()
    raw: dict[str, Any] = await _memory(gate, who).export()
    found = Remembered.model_validate({**_empty().model_dump(), **raw})
    facts = [fact for fact in found.facts if not (fact.model_extra or {}).get("supersededBy")]
    return found.model_copy(update={"facts": facts})


def _empty() -> Remembered:
    def layers(names: tuple[str, ...]) -> dict[str, Layer]:
        return {name: Layer(summary="", updatedAt="") for name in names}

    return Remembered(
        version="1.0",
        lastUpdated="",
        user=layers(USER_SUMMARIES),
        history=layers(HISTORY_SUMMARIES),
        facts=[],
    )


def _settings(gate: Gateway) -> MemorySettings:
    section = gate.runtime.harness.loaded.config.memory
    backend = section.backend_config
    return MemorySettings(
        enabled=gate.runtime.harness.memory is not None,
        mode=section.mode,
        storage=backend.storage if backend.storage in ("file", "sql") else "own",
        debounce_seconds=float(backend.debounce_seconds),
        max_facts=backend.max_facts,
        fact_confidence_threshold=backend.fact_confidence_threshold,
        injection_enabled=section.injection_enabled,
        max_injection_tokens=backend.max_injection_tokens,
    )
