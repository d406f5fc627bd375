"""Skills: which there are, which the caller wants, and those of their own."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from deerflow.errors import ConflictError
from deerflow.gateway.deps import Caller, Gateway, Open, needs
from deerflow.gateway.routes.bodies import Body, Ident
from deerflow.gateway.wire import iso
from deerflow.skills.protocol import Skill, SkillProblem
from deerflow.wiring.skills import choose_skill, every_skill, find_skill, own_skills

router = APIRouter(prefix="/skills", tags=["skills"])

Reader = Annotated[Caller, needs("account:read")]
Writer = Annotated[Caller, needs("account:write")]
Name = Annotated[str, Field(min_length=1, max_length=255)]
LONGEST = 1_048_576
"""Characters of a SKILL.md."""


class SwitchBody(Body):
    """Whether the caller wants the skill."""

    enabled: bool


class TextBody(Body):
    """A whole SKILL.md."""

    content: str = Field(min_length=1, max_length=LONGEST)


class VersionBody(Body):
    """A version of a skill."""

    version: int = Field(ge=1, le=2**31)


class InstallBody(Body):
    """An archive in a thread."""

    thread_id: Ident
    path: str = Field(min_length=1, max_length=4096)


class SkillEntry(BaseModel):
    """A skill; `category` is public or custom, only the caller's own are editable."""

    name: str
    description: str
    category: str
    license: str | None
    enabled: bool
    editable: bool
    allowed_tools: list[str] | None
    warnings: list[str]


class SkillTrouble(BaseModel):
    """A file that is not loaded, and why."""

    path: str
    line: int
    reason: str
    cure: str


class SkillList(BaseModel):
    """Skills by name, and files that are not loaded."""

    skills: list[SkillEntry]
    problems: list[SkillTrouble]


class SkillText(BaseModel):
    """A skill of the caller's own with its SKILL.md."""

    name: str
    content: str


class SkillVersion(BaseModel):
    """A text that a skill had."""

    version: int
    created_at: str | None
    size: int


class SkillHistory(BaseModel):
    """Versions, newest first; the first one is the text as it is."""

    name: str
    history: list[SkillVersion]


class Done(BaseModel):
    """That it is done."""

    success: bool


@router.get("", summary="List the skills")
async def listing(gate: Open, who: Reader) -> SkillList:
    """Public ones and the caller's own, those that are switched off too."""
    return await _listed(gate, who, own=False)


@router.post("/install", summary="Install a skill from an archive in a thread")
async def install(given: InstallBody, gate: Open, who: Writer) -> dict[str, Any]:
    """409: this server does not install archives."""
    await gate.runtime.submissions.thread(who.user_id, given.thread_id)
    raise ConflictError(
        "Archives of skills are not installed by this server.",
        cure="Write the skill with PUT /api/skills/custom/{name}.",
    )


@router.post("/reload", summary="Read the skills again")
async def reload(who: Writer) -> Done:
    """Files are looked at each time anyway."""
    return Done(success=True)


@router.get("/custom", summary="List my own skills")
async def custom(gate: Open, who: Reader) -> SkillList:
    """Those that the caller may edit."""
    return await _listed(gate, who, own=True)


@router.get("/custom/{skill_name}", summary="A skill of my own")
async def read(skill_name: Name, gate: Open, who: Reader) -> SkillText:
    """Its SKILL.md."""
    return await _text(gate, who, skill_name)


@router.put("/custom/{skill_name}", summary="Write a skill of my own")
async def write(skill_name: Name, given: TextBody, gate: Open, who: Writer) -> SkillText:
    """New or replaced; 422 for a text that could not be loaded, and then nothing is changed."""
    await own_skills(gate.runtime.harness.loaded).write(who.user_id, skill_name, given.content)
    return await _text(gate, who, skill_name)


@router.delete("/custom/{skill_name}", status_code=204, summary="Remove a skill of my own")
async def delete(skill_name: Name, gate: Open, who: Writer) -> Response:
    """With its folder and versions."""
    await own_skills(gate.runtime.harness.loaded).delete(who.user_id, skill_name)
    await choose_skill(gate.runtime.harness, who.user_id, skill_name, None)
    return Response(status_code=204)


@router.get("/custom/{skill_name}/history", summary="Versions of a skill of my own")
async def history(skill_name: Name, gate: Open, who: Reader) -> SkillHistory:
    """Newest first."""
    found = await own_skills(gate.runtime.harness.loaded).versions(who.user_id, skill_name)
    return SkillHistory(
        name=skill_name,
        history=[
            SkillVersion(version=each.number, created_at=iso(each.written_at), size=each.size)
            for each in found
        ],
    )


@router.post("/custom/{skill_name}/rollback", summary="Go back to a version")
async def roll_back(skill_name: Name, given: VersionBody, gate: Open, who: Writer) -> SkillText:
    """As a new version."""
    await own_skills(gate.runtime.harness.loaded).roll_back(who.user_id, skill_name, given.version)
    return await _text(gate, who, skill_name)


@router.get("/{skill_name}", summary="A skill")
async def get(skill_name: Name, gate: Open, who: Reader) -> SkillEntry:
    """404 with the nearest name."""
    return await _entry(gate, who, skill_name)


@router.put("/{skill_name}", summary="Switch a skill on or off")
async def switch(skill_name: Name, given: SwitchBody, gate: Open, who: Writer) -> SkillEntry:
    """For the caller alone."""
    await _entry(gate, who, skill_name)
    await choose_skill(gate.runtime.harness, who.user_id, skill_name, given.enabled)
    return await _entry(gate, who, skill_name)


async def _listed(gate: Gateway, who: Caller, *, own: bool) -> SkillList:
    found, problems = await every_skill(gate.runtime.harness).all(who.user_id)
    return SkillList(
        skills=[_shown(*pair) for pair in found if not own or pair[0].source == "custom"],
        problems=[_trouble(each) for each in problems],
    )


async def _entry(gate: Gateway, who: Caller, name: str) -> SkillEntry:
    return _shown(*await find_skill(gate.runtime.harness, who.user_id, name))


async def _text(gate: Gateway, who: Caller, name: str) -> SkillText:
    return SkillText(
        name=name, content=await own_skills(gate.runtime.harness.loaded).read(who.user_id, name)
    )


def _shown(skill: Skill, enabled: bool) -> SkillEntry:
    return SkillEntry(
        name=skill.name,
        description=skill.description,
        category=skill.source,
        license=skill.license or None,
        enabled=enabled,
        editable=skill.source == "custom",
        allowed_tools=None if skill.allowed_tools is None else list(skill.allowed_tools),
        warnings=list(skill.warnings),
    )


def _trouble(problem: SkillProblem) -> SkillTrouble:
    return SkillTrouble(
        path=problem.path, line=problem.line, reason=problem.reason, cure=problem.cure
    )
