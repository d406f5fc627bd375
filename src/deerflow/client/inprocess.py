"""`DeerFlowClient`: everything that a server offers, in this process and without one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from deerflow.client.account import Goals, Models, Pending, UserMemory
from deerflow.client.agent import result_of
from deerflow.client.agents import Agents, Skills
from deerflow.client.conversations import Artifacts, Desk, Threads, Uploads
from deerflow.client.opening import located
from deerflow.config.schema import AppConfig
from deerflow.errors import UsageError
from deerflow.events import Event
from deerflow.runtime.request import LOCAL_USER, RunRequest, RunResult
from deerflow.wiring.harness import Harness, open_harness
from deerflow.wiring.parts import Given


class DeerFlowClient:
    """The harness of one user. Use it as `async with DeerFlowClient() as client`.

    Args:
        config: a configuration or its file; None = the usual look-up.
        home: folder of data; None = the usual one.
        user_id: whose threads, files, memory and approvals it shows; nobody else's are reachable.
        given: models, tools and kinds of child that the caller brings.
    """

    def __init__(
        self,
        config: AppConfig | Path | str | None = None,
        *,
        home: Path | str | None = None,
        user_id: str = LOCAL_USER,
        given: Given | None = None,
    ) -> None:
        self._config = config
        self._home = home
        self._user_id = user_id
        self._given = given
        self._stack = AsyncExitStack()
        self._open: Desk | None = None
        self._entered = False

    @classmethod
    def over(cls, harness: Harness, user_id: str = LOCAL_USER) -> Self:
        """A client over a harness that somebody else opened and closes."""
        client = cls(user_id=user_id)
        client._open = Desk(harness, user_id)
        return client

    async def __aenter__(self) -> Self:
        """Open the harness.

        Raises:
            ConfigError: the configuration has problems.
            StorageError: the home cannot be used.
        """
        if self._entered:
            raise UsageError(
                "The client is open already.",
                cure="Tasks may share one `async with`, also at the same time.",
            )
        self._entered = True
        if self._open is None:
            loaded, environ = await asyncio.to_thread(located, self._config, self._home)
            opened = open_harness(loaded, environ, given=self._given)
            harness = await self._stack.enter_async_context(opened)
            self._open = Desk(harness, self._user_id)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop what runs and close the harness."""
        self._open, self._entered = None, False
        await self._stack.__aexit__(kind, error, trace)

    async def chat(
        self,
        text: str,
        *,
        thread_id: str | None = None,
        model: str | None = None,
        uploads: Sequence[Path | str] = (),
        agent: str = "",
    ) -> RunResult:
        """Say something and wait for the answer.

        Args:
            text: the user's words.
            thread_id: conversation to continue or begin; None begins a new one.
            model: configured name; None for the default.
            uploads: files to hand over.
            agent: custom agent that leads.

        Raises:
            DeerFlowError: the run could not be started.
        """
        request = self._request(text, thread_id, model, uploads, agent)
        handle = await self._desk.harness.runs.start(request)
        return await result_of(handle)

    async def stream(
        self,
        text: str,
        *,
        thread_id: str | None = None,
        model: str | None = None,
        uploads: Sequence[Path | str] = (),
        agent: str = "",
    ) -> AsyncGenerator[Event]:
        """`chat` as its events, as they are committed; leaving early stops the run."""
        request = self._request(text, thread_id, model, uploads, agent)
        handle = await self._desk.harness.runs.start(request)
        try:
            async for event in handle.events():
                yield event
        finally:
            handle.cancel()
            await handle.result()

    async def resume(self, thread_id: str) -> RunResult:
        """Go on with the thread's unfinished run.

        Raises:
            NotFoundError: no such thread.
            UsageError: nothing to resume.
        """
        request = RunRequest(thread_id=thread_id, user_id=self._desk.user_id, resume=True)
        return await result_of(await self._desk.harness.runs.start(request))

    @property
    def threads(self) -> Threads:
        """Conversations."""
        return Threads(self._desk)

    @property
    def uploads(self) -> Uploads:
        """Files that were handed over."""
        return Uploads(self._desk)

    @property
    def artifacts(self) -> Artifacts:
        """Files that were delivered."""
        return Artifacts(self._desk)

    @property
    def memory(self) -> UserMemory:
        """What is remembered."""
        return UserMemory(self._desk)

    @property
    def models(self) -> Models:
        """What can be asked."""
        return Models(self._desk)

    @property
    def goals(self) -> Goals:
        """What threads pursue."""
        return Goals(self._desk)

    @property
    def agents(self) -> Agents:
        """Custom agents."""
        return Agents(self._desk)

    @property
    def skills(self) -> Skills:
        """Instructions for special kinds of work."""
        return Skills(self._desk)

    @property
    def approvals(self) -> Pending:
        """Calls that wait for the user."""
        return Pending(self._desk)

    @property
    def _desk(self) -> Desk:
        if self._open is None:
            raise UsageError(
                "The client is not open.", cure="Use: async with DeerFlowClient() as client."
            )
        return self._open

    def _request(
        self,
        text: str,
        thread_id: str | None,
        model: str | None,
        uploads: Sequence[Path | str],
        agent: str,
    ) -> RunRequest:
        return RunRequest(
            task=text,
            thread_id=thread_id,
            user_id=self._desk.user_id,
            model=model,
            uploads=tuple(Path(path) for path in uploads),
            agent_name=agent,
        )
