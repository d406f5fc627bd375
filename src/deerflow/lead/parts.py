"""What lead agents and their children are made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver

from deerflow.config.schema import AppConfig
from deerflow.guardrails.protocol import GuardrailProvider
from deerflow.lead.profiles import BUILT_IN, FolderProfiles, LeadProfile
from deerflow.memory.protocol import MemoryManager
from deerflow.models.protocol import Catalog
from deerflow.models.resilience import Resilience
from deerflow.skills.protocol import SkillStore
from deerflow.subagents.roster import SubagentSpec


@dataclass(frozen=True, slots=True)
class LeadParts:
    """What lead agents are made from.

    Attributes:
        config: the whole configuration; each row gets its own section.
        catalog: the models.
        resilience: retries, limits and breakers of this process.
        tools: every tool that the configuration offers.
        saver: checkpoint saver, or None under a runner that brings its own.
        extra: third-party middlewares, nearer to the model than the chain.
        sandbox_python: what the sandbox's Python offers, for the prompt.
        memory: what is remembered of users, None for nothing.
        skills: where skills are kept, None for none.
        guardrails: who decides over tool calls, None when nobody does.
        subagents: kinds of child beside the built-in and configured ones.
        profile: who leads when a run names no custom agent.
        profiles: users' custom agents, None for none.
        child_tools: tools for the kinds of child that name them, and for nobody else.
    """

    config: AppConfig
    catalog: Catalog
    resilience: Resilience
    tools: Sequence[BaseTool]
    saver: BaseCheckpointSaver[Any] | None = None
    extra: Sequence[AgentMiddleware[Any, Any, Any]] = ()
    sandbox_python: str | None = None
    memory: MemoryManager | None = None
    skills: SkillStore | None = None
    guardrails: GuardrailProvider | None = None
    subagents: Sequence[SubagentSpec] = ()
    profile: LeadProfile = BUILT_IN
    profiles: FolderProfiles | None = None
    child_tools: Sequence[BaseTool] = ()
