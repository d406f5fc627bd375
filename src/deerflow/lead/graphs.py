"""The lead agent and its children: compiled once per signature (building one costs about 30 ms)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.tools import BaseTool
from langgraph.graph.state import CompiledStateGraph

from deerflow.agent.build import AgentParts, build_agent
from deerflow.agent.context import RunContext
from deerflow.agent.prompt import PromptFacts, apply_prompt_template
from deerflow.errors import NotFoundError
from deerflow.lead.asking import asks
from deerflow.lead.parts import LeadParts
from deerflow.lead.profiles import BUILT_IN, LeadProfile
from deerflow.lead.rows import build_rows
from deerflow.memory.protocol import AskFor
from deerflow.models.protocol import ModelSpec
from deerflow.storage.protocol import Storage
from deerflow.subagents.batch import batch_tools
from deerflow.subagents.roster import BASH, Roster, SubagentSpec
from deerflow.subagents.runner import SubagentExecutor
from deerflow.subagents.task_tool import task_tools

logger = logging.getLogger(__name__)

Graph = CompiledStateGraph[Any, Any, Any, Any]

VIEW_IMAGE = "view_image"
ASK = "ask_clarification"
COMPACT_TOOLS = ("write_file", "read_file", "bash", "present_files", "ask_clarification")
"""Tools of the compact profile: few, so that a small window is not spent on schemas."""

LEAD_TOOLS = frozenset({"ask_clarification", "present_files", "write_todos", "view_memory"})
"""Tools that speak to the user or keep the run's plan: children go without them."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What a lead's graph depends on: model, delegation, questions, and who leads."""

    model: str
    delegate: bool
    may_ask: bool
    profile: LeadProfile


class LeadAgents:
    """Compiled agents of this process."""

    def __init__(self, parts: LeadParts) -> None:
        self._lock = asyncio.Lock()
        self.renew(parts)

    def renew(self, parts: LeadParts) -> None:
        """Make agents from other parts from now on; runs under way keep the agents they have.

        Raises:
            ConfigError: the kinds of child do not fit together; then nothing has changed.
        """
        config = parts.config
        roster = Roster(config.subagents, parts.subagents)
        executor = SubagentExecutor(config.subagents, self._child, parts.catalog)
        _check_children(roster, parts)
        self._parts = parts
        self.roster = roster
        self.executor = executor
        self._graphs: dict[Hashable, Graph] = {}

    async def __call__(self, run: RunContext) -> Graph:
        """The agent that leads a run. Raises like `graph` and `profile`."""
        profile = await self.profile(run.user_id, run.agent_name)
        return await self.graph(run.model_name, run.delegate, profile, may_ask=run.may_ask)

    async def profile(self, user_id: str, name: str) -> LeadProfile:
        """Who leads: a user's custom agent, or with "" the one of this process.

        Raises:
            NotFoundError: the user has no such agent.
            ConfigError: its files cannot be used.
        """
        if not name:
            return self._parts.profile
        if self._parts.profiles is None:
            raise NotFoundError(f"There is no agent {name!r}.", cure="Custom agents are off here.")
        return await self._parts.profiles.get(user_id, name)

    async def graph(
        self,
        model: str,
        delegate: bool = True,
        profile: LeadProfile | None = None,
        *,
        may_ask: bool = True,
    ) -> Graph:
        """The agent for a model, with or without children to delegate to and questions to ask.

        Raises:
            NotFoundError: unknown model.
            ConfigError: the model's class or key is wrong.
        """
        key = Signature(model, delegate, may_ask, profile or self._parts.profile)
        async with self._lock:
            if key not in self._graphs:
                made = self.parts_of(model, delegate, profile, may_ask=may_ask)
                self._graphs[key] = build_agent(made)
        return self._graphs[key]

    def asks(self, model: str, storage: Storage) -> AskFor:
        """How questions beside runs are asked: with retries and fall-over, within the user's day.

        Args:
            model: configured name.
            storage: where the day's sums are.

        Raises:
            NotFoundError: unknown model.
        """
        parts = self._parts
        parts.catalog.spec(model)
        return asks(model, parts.catalog, parts.resilience, storage, parts.config.token_budget)

    def parts_of(
        self,
        name: str,
        delegate: bool = False,
        profile: LeadProfile | None = None,
        *,
        may_ask: bool = True,
    ) -> AgentParts:
        """What the lead agent for a model is compiled from."""
        parts = self._parts
        profile = profile or parts.profile
        spec = parts.catalog.spec(name)
        tools = self._tools(spec)
        children = delegate and spec.tools and not spec.compact
        if children:
            tools += task_tools(self.executor, self.roster)
            tools += batch_tools(self.executor, self.roster, parts.config.batch)
            if parts.config.verify:
                from deerflow.lead.verifying import (  # noqa: PLC0415  (2 MiB, 50 ms)
                    verifying_tools,
                )

                tools += verifying_tools(self.executor)
        facts = replace(
            self._facts(spec),
            delegate=children,
            may_ask=may_ask,
            agent_name=profile.name,
            instructions=profile.soul,
        )
        if not may_ask:
            tools = [tool for tool in tools if tool.name != ASK]
        return AgentParts(
            model=parts.catalog.get(name),
            tools=[tool for tool in tools if profile.may_use(tool.name)],
            system=apply_prompt_template(facts),
            rows=build_rows(parts),
            extra=parts.extra,
            saver=parts.saver,
        )

    async def _child(self, spec: SubagentSpec, run: RunContext) -> Graph:
        """The agent of a child; `run` is the child's own context.

        A kind that names no tools, and the built-in `bash`, have none that the lead goes without.
        """
        lead = await self.profile(run.user_id, run.agent_name)
        if spec.tools not in (None, BASH.tools):
            lead = BUILT_IN
        key = (spec, run.model_name, lead.tools)
        async with self._lock:
            if key not in self._graphs:
                self._graphs[key] = build_agent(self._child_parts(spec, run.model_name, lead))
        return self._graphs[key]

    def _child_parts(self, spec: SubagentSpec, name: str, lead: LeadProfile) -> AgentParts:
        parts = self._parts
        model = parts.catalog.spec(name)
        tools = [tool for tool in self._tools(model) if tool.name not in LEAD_TOOLS]
        tools += [tool for tool in parts.child_tools if tool.name in (spec.tools or ())]
        facts = replace(self._facts(model), child=True, instructions=spec.prompt)
        return AgentParts(
            model=parts.catalog.get(name),
            tools=[t for t in tools if spec.may_use(t.name) and lead.may_use(t.name)],
            system=apply_prompt_template(facts),
            rows=build_rows(parts, "child"),
            extra=parts.extra,
            name=spec.name,
        )

    def _tools(self, spec: ModelSpec) -> list[BaseTool]:
        if not spec.tools:
            return []
        tools = list(self._parts.tools)
        if spec.compact:
            tools = [tool for tool in tools if tool.name in COMPACT_TOOLS]
        if not spec.vision:
            tools = [tool for tool in tools if tool.name != VIEW_IMAGE]
        return tools

    def _facts(self, spec: ModelSpec) -> PromptFacts:
        parts = self._parts
        return PromptFacts(
            compact=spec.compact,
            sandbox_python=parts.sandbox_python,
            network=parts.config.sandbox.network,
        )


def _check_children(roster: Roster, parts: LeadParts) -> None:
    """Names that do not exist are told when the process starts, not in the middle of a run."""
    tools = {tool.name for tool in parts.tools}
    tools |= {tool.name for row in build_rows(parts, "child") for tool in row.tools}
    tools |= {tool.name for tool in parts.child_tools}
    for warning in roster.check(parts.catalog.names(), tools):
        logger.warning("%s", warning)
