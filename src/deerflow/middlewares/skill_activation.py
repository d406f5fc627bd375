"""Row 8: skills are offered by name, loaded when asked for, and bind the tools while active."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence
from typing import Any, cast

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool
from pydantic import BaseModel

from deerflow.agent.context import RunContext
from deerflow.agent.hooks import (
    Middleware,
    ModelCall,
    ModelNext,
    ModelReply,
    ToolNext,
    ToolResult,
)
from deerflow.errors import NotFoundError, ToolError
from deerflow.middlewares.compaction import KEEP
from deerflow.middlewares.deferred_tool_filter import name_of
from deerflow.middlewares.delimiters import SKILL_TAG, after, block, one_line
from deerflow.middlewares.requests import is_request, last_request
from deerflow.skills.protocol import Skill, SkillStore
from deerflow.tools.schema import Runtime, answer, make_tool

TOOL = "load_skill"
MARK = "deerflow_skill"
"""additional_kwargs of a request: {name, text} of the skill that it asked for."""

LISTED = 40
"""Skills that are named in a request."""
SHORT, LONG = 120, 1_024
"""Characters of a description, with and without deferred discovery."""

ALWAYS = frozenset({TOOL, "ask_clarification", "present_files", "write_todos", "tool_search"})
"""Tools that no skill takes away: they speak to the user or keep the plan."""

_COMMAND = re.compile(r"\s*/([a-z0-9]+(?:-[a-z0-9]+)*)(?:\s+|$)")
_ALIASES = {"edit": "str_replace", "write": "write_file", "read": "read_file", "shell": "bash"}
"""Names that skills of other products use."""


class SkillArgs(BaseModel):
    """Arguments of load_skill."""

    name: str


class SkillActivationMiddleware(Middleware):
    """`/skill task` and model-chosen skills.

    Args:
        store: where skills are kept.
        deferred: whether descriptions are short until a skill is loaded.
        compact: whether a model is too small to be offered skills.
    """

    def __init__(
        self,
        store: SkillStore,
        *,
        deferred: bool = True,
        compact: Callable[[BaseChatModel], bool] = lambda model: False,
    ) -> None:
        self._store = store
        self._compact = compact
        self._limit = SHORT if deferred else LONG
        self.tools: Sequence[BaseTool] = [self._tool()]

    async def start(self, state: dict[str, Any], run: RunContext) -> dict[str, Any] | None:
        """A new request ends what was active; `/name` at its beginning activates a skill."""
        update: dict[str, Any] = {}
        if state.get("active_skills"):
            update["active_skills"] = dict.fromkeys(state["active_skills"])
        messages: list[AnyMessage] = state["messages"]
        index = last_request(messages)
        match = _COMMAND.match(messages[index].text) if index >= 0 else None
        if match is None or not messages[index].id:
            return update or None
        if not any(skill.name == match[1] for skill in await self._offered(run)):
            await self._tell_unloaded(match[1], run)
            return update or None  # a path or a word with a slash is no command
        skill, text = await self._store.load(run.user_id, match[1])
        request = messages[index]
        mark = {"name": skill.name, "text": _told(skill, text)}
        noted = {**request.additional_kwargs, MARK: mark}
        update["messages"] = [request.model_copy(update={"additional_kwargs": noted})]
        update["active_skills"] = {**update.get("active_skills", {}), skill.name: skill.path}
        run.emit("skill", {"name": skill.name, "by": "user"})
        return update

    async def _tell_unloaded(self, name: str, run: RunContext) -> None:
        """Say why a skill that was asked for is not there, when there is a file of it."""
        for problem in (await self._store.list(run.user_id)).problems:
            if f"/{name}/" in problem.path:
                text = f"The skill {name} is not loaded: {problem.reason} ({problem.path})."
                run.emit("notice", {"message": f"{text} {problem.cure}"})
                return

    async def model(self, call: ModelCall, next_: ModelNext) -> ModelReply:
        """Show what was asked for, and offer the others by name."""
        messages = [_shown(message) for message in call.messages]
        skills = () if self._compact(call.model) else await self._offered(call.run)
        if not skills:
            tools = [tool for tool in call.tools if name_of(tool) != TOOL]
            return await next_(call.with_(messages=messages, tools=tools))
        listed = "\n".join(
            f"- {skill.name}: {one_line(skill.description, self._limit)}"
            for skill in skills[:LISTED]
        )
        offer = f"## Skills\nWhen one fits the task, call {TOOL} before you begin.\n{listed}"
        system = f"{call.system.text}\n\n{offer}" if call.system else offer
        return await next_(call.with_(messages=messages, system=SystemMessage(system)))

    async def tool(self, request: ToolCallRequest, next_: ToolNext, run: RunContext) -> ToolResult:
        """Refuse what the active skills do not allow."""
        active: dict[str, str] = request.state.get("active_skills") or {}
        name = request.tool_call["name"]
        if not active or name in ALWAYS:
            return await next_(request)
        allowed = await self._allowed(run, active)
        if allowed is None or any(_fits(name, pattern) for pattern in allowed):
            return await next_(request)
        listed = ", ".join(sorted(allowed)) or "no tools"
        return ToolMessage(
            content=f"{name} is not allowed while the skill {', '.join(active)} is active; "
            f"it allows {listed}.",
            name=name,
            tool_call_id=request.tool_call["id"] or "",
            status="error",
        )

    async def _offered(self, run: RunContext) -> tuple[Skill, ...]:
        """Skills of the run, looked up once: the request reads the same on every turn."""
        found = run.scratch.get(SkillActivationMiddleware)
        if found is None:
            skills = (await self._store.list(run.user_id)).skills
            found = tuple(s for s in skills if run.skills is None or s.name in run.skills)
            run.scratch[SkillActivationMiddleware] = found
        return found

    async def _allowed(self, run: RunContext, active: dict[str, str]) -> set[str] | None:
        """Union of what the active skills allow; None when none of them limits anything.

        One that is gone or broken meanwhile keeps the limits that the run saw; when it saw none,
        nothing is allowed, since nobody knows its limits.
        """
        now = (await self._store.list(run.user_id)).skills
        known = {skill.name: skill.allowed_tools for skill in (*await self._offered(run), *now)}
        limits = [known.get(name, ()) for name in active]
        named = [limit for limit in limits if limit is not None]
        return {tool for limit in named for tool in limit} if named else None

    def _tool(self) -> BaseTool:
        async def load_skill(name: str, runtime: Runtime) -> Any:
            run = cast("RunContext", runtime.context)
            try:
                if run.skills is not None and name not in run.skills:
                    raise NotFoundError(f"There is no skill {name!r} for this agent.")
                skill, text = await self._store.load(run.user_id, name)
            except NotFoundError as error:
                raise ToolError(error.message, cure=error.cure) from error
            run.emit("skill", {"name": skill.name, "by": "model"})
            update = {"active_skills": {skill.name: skill.path}}
            return answer(TOOL, runtime, _told(skill, text), update, additional_kwargs={KEEP: True})

        description = "Load the instructions of a skill by its name."
        return make_tool(TOOL, description, SkillArgs, load_skill, {"idempotent": True})


def _told(skill: Skill, text: str) -> str:
    files = f"Its files are in {skill.path}.\n\n" if skill.path else ""
    return f"Skill {skill.name}: {skill.description}\n{files}{text}"


def _shown(message: AnyMessage) -> AnyMessage:
    noted: Any = message.additional_kwargs.get(MARK)
    if not isinstance(noted, dict) or not is_request(message):
        return message
    return after(message, block(SKILL_TAG, str(cast("dict[str, Any]", noted).get("text", ""))))


def _fits(tool: str, pattern: str) -> bool:
    """Whether a pattern of `allowed-tools` means a tool; "Bash(git:*)" means bash."""
    name = pattern.partition("(")[0].strip().lower()
    return fnmatch.fnmatchcase(tool, _ALIASES.get(name, name))
