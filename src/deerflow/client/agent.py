"""`Agent`: the harness as a library, without a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool

from deerflow.client.memory import Memory
from deerflow.client.opening import located
from deerflow.client.selection import Given as Tool
from deerflow.client.selection import check_names, check_text, check_tools, names_and_tools
from deerflow.config.schema import AppConfig
from deerflow.errors import UsageError
from deerflow.events import Event
from deerflow.lead.profiles import LeadProfile
from deerflow.runtime.goals import SessionGoal
from deerflow.runtime.request import RunRequest, RunResult
from deerflow.runtime.runs import RunHandle
from deerflow.skills.protocol import Skill
from deerflow.subagents.roster import SubagentSpec
from deerflow.wiring.harness import Harness, open_harness
from deerflow.wiring.parts import Given


@dataclass(frozen=True, slots=True)
class SubAgent:
    """A kind of child that the agent may delegate to.

    Attributes:
        name: what the agent calls it.
        description: when to delegate to it.
        model: configured name or a chat model; None = the agent's.
        tools: names, functions or LangChain tools; None = the agent's.
        skills: names or skills; None = all.
        prompt: what it is told.
        max_attempts: attempts at a task before it counts as failed.
    """

    name: str
    description: str = ""
    model: str | BaseChatModel | None = None
    tools: Sequence[Tool] | None = None
    skills: Sequence[str | Skill] | None = None
    prompt: str = ""
    max_attempts: int = 1


@dataclass(slots=True, eq=False)
class Agent:
    """An agent with its own model, tools and helpers.

    `await agent.run(task)` opens what a run needs and closes it again; `async with agent:` keeps
    it open over many runs.

    Attributes:
        name: what it calls itself; "" for the built-in agent.
        model: configured name or a chat model; None = the default.
        tools: names, functions or LangChain tools; None = all of the configuration.
        skills: names or skills that it may use; None = all.
        sub_agents: kinds of child beside the built-in ones.
        memory: what it remembers by; None = as configured.
        goal: objective that each run pursues until it is reached.
        prompt: what it is told in every run.
        config: a configuration or its file; None = the usual look-up.
        home: folder of data; None = the usual one.
        user_id: whose threads and memory.
    """

    name: str = ""
    model: str | BaseChatModel | None = None
    tools: Sequence[Tool] | None = None
    skills: Sequence[str | Skill] | None = None
    sub_agents: Sequence[SubAgent] = ()
    memory: Memory | None = None
    goal: str | SessionGoal | None = None
    prompt: str = ""
    config: AppConfig | Path | str | None = None
    home: Path | str | None = None
    user_id: str = "local"
    _open: Harness | None = field(default=None, init=False, repr=False)
    _stack: AsyncExitStack | None = field(default=None, init=False, repr=False)

    async def run(
        self,
        task: str | None = None,
        *,
        prompt: str | None = None,
        memory: Memory | None = None,
        thread_id: str | None = None,
        uploads: Sequence[Path | str] = (),
        expect: Sequence[str] = (),
    ) -> RunResult:
        """Hand over a task and wait for its end.

        Args:
            task: the task.
            prompt: the task, under the name that the public articles use.
            memory: for this run, instead of the agent's.
            thread_id: conversation to continue or begin; None begins a new one.
            uploads: files to hand over.
            expect: files that must be in outputs at the end.

        Raises:
            UsageError: no task, or both; a bad upload, tool or model.
            ConfigError: the configuration has problems.
            StorageError: the home cannot be used.
        """
        request = self._request(task or prompt, thread_id, uploads, expect)
        if task and prompt:
            raise UsageError("task and prompt are two names of one thing.", cure="Give one.")
        async with self._harness(memory) as harness:
            handle = await harness.runs.start(request)
            return await result_of(handle)

    def run_sync(
        self,
        task: str | None = None,
        *,
        prompt: str | None = None,
        memory: Memory | None = None,
        thread_id: str | None = None,
    ) -> RunResult:
        """`run` for code without an event loop: the one synchronous door.

        Raises:
            UsageError: an event loop runs in this thread already.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            work = self.run(task, prompt=prompt, memory=memory, thread_id=thread_id)
            return asyncio.run(work)
        raise UsageError("An event loop is running here.", cure="Use: await agent.run(…)")

    async def stream(
        self, task: str, *, thread_id: str | None = None, uploads: Sequence[Path | str] = ()
    ) -> AsyncGenerator[Event]:
        """The events of a run as they are committed; leaving early stops the run.

        Raises:
            DeerFlowError: see `run`.
        """
        request = self._request(task, thread_id, uploads, ())
        async with self._harness(None) as harness:
            handle = await harness.runs.start(request)
            try:
                async for event in handle.events():
                    yield event
            finally:
                handle.cancel()
                await handle.result()

    @property
    def harness(self) -> Harness | None:
        """What `async with` opened, for code that needs stores or events; None when closed."""
        return self._open

    async def __aenter__(self) -> Self:
        """Open what runs need, and keep it open.

        Raises:
            UsageError: it is open already; or see `run`.
        """
        if self._stack is not None:
            raise UsageError(
                "The agent is open already.",
                cure="Runs may share one `async with`, also at the same time.",
            )
        stack = self._stack = AsyncExitStack()
        try:
            self._open = await stack.enter_async_context(self._harness(None))
        finally:
            if self._open is None:
                self._stack = None
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close what was opened; queued memories are taken in first."""
        stack, self._stack, self._open = self._stack, None, None
        if stack is not None:
            await stack.__aexit__(kind, error, trace)

    @asynccontextmanager
    async def _harness(self, memory: Memory | None) -> AsyncGenerator[Harness]:
        if self._open is not None and memory in (None, self.memory):
            yield self._open
            return
        loaded, environ = await asyncio.to_thread(located, self.config, self.home)
        chosen = memory or self.memory
        if chosen is not None:
            loaded = replace(loaded, config=chosen.applied(loaded.config))
        given = self._given(loaded.config)
        async with open_harness(loaded, environ, given=given) as harness:
            yield harness
            if harness.memory is not None:
                seconds = loaded.config.memory.shutdown_flush_timeout_seconds
                await harness.memory.flush(user_id=self.user_id, seconds=seconds)

    def _request(
        self,
        task: str | None,
        thread_id: str | None,
        uploads: Sequence[Path | str],
        expect: Sequence[str],
    ) -> RunRequest:
        return RunRequest(
            task=task or "",
            thread_id=thread_id,
            user_id=self.user_id,
            uploads=tuple(Path(path) for path in uploads),
            expect=tuple(expect),
            goal=self.goal,
        )

    def _given(self, config: AppConfig) -> Given:
        """The caller's part of the harness."""
        configured = tuple(entry.name for entry in config.tools)
        models: dict[str, BaseChatModel] = {}
        own: list[BaseTool] = []
        names: tuple[str, ...] | None = None
        if self.tools is not None:
            names, own = names_and_tools(self.tools, configured)
        check_text(self.name, "The name of the agent")
        check_text(self.prompt, "The prompt of the agent")
        check_names([each.name for each in self.sub_agents])
        for each in self.sub_agents:
            check_text(f"{each.description}{each.prompt}", f"The sub-agent {each.name!r}")
            if each.max_attempts < 1:
                raise UsageError(
                    f"The sub-agent {each.name!r} has no attempt.", cure="Raise max_attempts."
                )
        children: list[BaseTool] = []
        limits = config.subagents
        specs = [
            replace(
                self._spec(each, configured, models, children),
                max_turns=limits.max_turns,
                timeout_seconds=limits.timeout_seconds,
            )
            for each in self.sub_agents
        ]
        check_tools([*own, *children])
        profile = LeadProfile(
            name=self.name,
            soul=self.prompt,
            model=_model_name(self.model, self.name or "agent", models),
            tools=names,
            skills=_names_of(self.skills),
        )
        if profile.model is not None and profile.model in models:  # the caller's comes first
            models = {profile.model: models.pop(profile.model), **models}
        return Given(own, children, models, profile, specs)

    @staticmethod
    def _spec(
        each: SubAgent,
        configured: tuple[str, ...],
        models: dict[str, BaseChatModel],
        children: list[BaseTool],
    ) -> SubagentSpec:
        tools: tuple[str, ...] | None = None
        if each.tools is not None:
            tools, own = names_and_tools(each.tools, configured)
            children += own
        return SubagentSpec(
            name=each.name,
            description=each.description,
            prompt=each.prompt,
            tools=tools,
            skills=_names_of(each.skills),
            model=_model_name(each.model, each.name, models),
            max_attempts=each.max_attempts,
        )


def _model_name(
    model: str | BaseChatModel | None, name: str, models: dict[str, BaseChatModel]
) -> str | None:
    """The configured name of a model; one that was made outside is noted under the agent's."""
    if model is None or isinstance(model, str):
        return model
    known = next((key for key, value in models.items() if value is model), None)
    if known is not None:
        return known
    while name in models:
        name += "+"
    models[name] = model
    return name


def _names_of(skills: Sequence[str | Skill] | None) -> tuple[str, ...] | None:
    if skills is None:
        return None
    if isinstance(skills, str):
        raise UsageError("The skills are a list, not one text.", cure=f"Write: [{skills!r}].")
    return tuple(each.name if isinstance(each, Skill) else each for each in skills)


async def result_of(handle: RunHandle) -> RunResult:
    """The end of a run; a cancelled waiter stops the run."""
    try:
        return await handle.result()
    except asyncio.CancelledError:
        handle.cancel()
        await handle.result()
        raise
