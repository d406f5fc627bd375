"""The lead agent and its children: compiled once per signature (building one costs about 30 ms)."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.tools import BaseTool
from langgraph.graph.state import CompiledStateGraph

from deerflow.agent.build import AgentParts, build_agent
from deerflow.agent.context import RunContext
from deerflow.agent.prompt import PromptFacts, apply_prompt_template
from deerflow.lead.parts import LeadParts
from deerflow.lead.rows import build_rows
from deerflow.models.protocol import ModelSpec
from deerflow.subagents.batch import batch_tools
from deerflow.subagents.roster import Roster, SubagentSpec
from deerflow.subagents.runner import SubagentExecutor
from deerflow.subagents.task_tool import task_tools

Graph = CompiledStateGraph[Any, Any, Any, Any]

VIEW_IMAGE = "view_image"
COMPACT_TOOLS = ("write_file", "read_file", "bash", "present_files", "ask_clarification")
"""Tools of the compact profile: few, so that a small window is not spent on schemas."""

LEAD_TOOLS = frozenset({"ask_clarification", "present_files", "write_todos", "view_memory"})
"""Tools that speak to the user or keep the run's plan: children go without them."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What a lead's graph depends on: model, delegation and the custom agent's state."""

    model: str
    delegate: bool = False
    custom: Hashable = None


class LeadAgents:
    """Compiled agents of this process."""

    def __init__(self, parts: LeadParts) -> None:
        self._parts = parts
        self._graphs: dict[Hashable, Graph] = {}
        self._lock = asyncio.Lock()
        config = parts.config
        self.roster = Roster(config.subagents, parts.subagents)
        self.executor = SubagentExecutor(config.subagents, self._child)

    async def __call__(self, run: RunContext) -> Graph:
        """The agent that leads a run. Raises like `graph`."""
        return await self.graph(run.model_name, run.delegate)

    async def graph(self, model: str, delegate: bool = True) -> Graph:
        """The agent for a model, with or without children to delegate to.

        Raises:
            NotFoundError: unknown model.
            ConfigError: the model's class or key is wrong.
        """
        key = Signature(model, delegate)
        async with self._lock:
            if key not in self._graphs:
                self._graphs[key] = build_agent(self.parts_of(model, delegate))
        return self._graphs[key]

    def parts_of(self, name: str, delegate: bool = False) -> AgentParts:
        """What the lead agent for a model is compiled from."""
        parts = self._parts
        spec = parts.catalog.spec(name)
        tools = self._tools(spec)
        children = delegate and spec.tools and not spec.compact
        if children:
            tools += task_tools(self.executor, self.roster)
            tools += batch_tools(self.executor, self.roster, parts.config.batch)
        return AgentParts(
            model=parts.catalog.get(name),
            tools=tools,
            system=apply_prompt_template(replace(self._facts(spec), delegate=children)),
            rows=build_rows(parts),
            extra=parts.extra,
            saver=parts.saver,
        )

    async def _child(self, spec: SubagentSpec, run: RunContext) -> Graph:
        """The agent of a child; `run` is the child's own context."""
        item = bool(run.batch_day)
        key = (spec, run.model_name, item)
        async with self._lock:
            if key not in self._graphs:
                parts = self._child_parts(spec, run.model_name)
                # hundreds of items in one node would share a namespace; the journal has them
                self._graphs[key] = build_agent(replace(parts, saver=False) if item else parts)
        return self._graphs[key]

    def _child_parts(self, spec: SubagentSpec, name: str) -> AgentParts:
        parts = self._parts
        model = parts.catalog.spec(name)
        tools = [tool for tool in self._tools(model) if tool.name not in LEAD_TOOLS]
        facts = replace(self._facts(model), child=True, instructions=spec.prompt)
        return AgentParts(
            model=parts.catalog.get(name),
            tools=[tool for tool in tools if spec.may_use(tool.name)],
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
            instructions=parts.instructions,
        )
