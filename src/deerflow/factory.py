"""`make_lead_agent`: the lead agent as a plain LangGraph graph, for runners that are not ours."""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig, ensure_config

from deerflow.agent.build import build_agent
from deerflow.agent.context import RunContext
from deerflow.agent.hooks import Middleware
from deerflow.config.load import load_config, read_environ
from deerflow.lead.graphs import Graph, LeadAgents
from deerflow.runtime.request import LOCAL_USER
from deerflow.sandbox.protocol import SandboxProvider
from deerflow.storage.protocol import Storage
from deerflow.wiring.parts import lead_parts, make_guardrails, make_provider, models_of
from deerflow.wiring.stores import Folders, memory_stores, thread_folders

REMEMBERED_RUNS = 256
"""Run contexts that are kept between two nodes of a run; the oldest goes when more run at once."""


def make_lead_agent(config: RunnableConfig) -> Graph:
    """The lead agent for a LangGraph runner, which brings persistence and the run's life.

    Our own event log, journal and deltas stay in memory here; `deerflow run` and the library keep
    them on disk. The sandbox of a thread is released when the run has answered.

    Args:
        config: `configurable` may hold `config_path` (else the usual look-up), `model_name`,
            `is_plan_mode`, `max_turns`, `user_id`, `thread_id`, and `thread_key`: the folder of the
            thread's files when it is not derived from user and thread.

    Raises:
        ConfigError: the configuration has problems.
        NotFoundError: unknown model.
    """
    asked: dict[str, Any] = dict(config.get("configurable") or {})
    cwd = Path.cwd()
    path = Path(asked["config_path"]) if asked.get("config_path") else None
    environ = read_environ(cwd=cwd, config=path)
    loaded = load_config(path, environ=environ, cwd=cwd)
    with ThreadPoolExecutor(1) as executor:  # we may be called on a running loop
        models, _ = executor.submit(asyncio.run, models_of(loaded, environ)).result()
    storage, provider = memory_stores(), make_provider(loaded)
    parts = replace(lead_parts(loaded, models, environ=environ), guardrails=make_guardrails(loaded))
    model = str(asked.get("model_name") or parts.catalog.default)
    contexts = _Contexts(storage, provider, thread_folders(loaded), model)
    contexts.max_turns = int(asked.get("max_turns") or loaded.config.max_turns)
    made = LeadAgents(parts).parts_of(model)
    rows = [*made.rows, _Release(provider)]
    return build_agent(made.for_runner(rows, contexts))


async def lead_agent(config: RunnableConfig) -> Graph:
    """`make_lead_agent` for servers that forbid blocking calls on their loop (langgraph.json)."""
    return await asyncio.to_thread(make_lead_agent, config)


class _Contexts:
    """Makes a RunContext for each run of a runner that knows none, and finds it again."""

    def __init__(
        self, storage: Storage, provider: SandboxProvider, folders: Folders, model: str
    ) -> None:
        self._storage = storage
        self._provider = provider
        self._folders = folders
        self._model = model
        self.max_turns = 100
        self._runs: OrderedDict[tuple[str, str], RunContext] = OrderedDict()

    def __call__(self, runtime: Any) -> RunContext:
        """The context of the run that is under way."""
        del runtime
        config = ensure_config()
        asked: dict[str, Any] = dict(config.get("configurable") or {})
        thread = str(asked.get("thread_id") or "default")
        metadata: dict[str, Any] = dict(config.get("metadata") or {})
        run = str(asked.get("run_id") or metadata.get("run_id") or "run")
        found = self._runs.get((thread, run))
        if found is None:
            found = self._make(thread, run, asked)
            self._runs[thread, run] = found
            while len(self._runs) > REMEMBERED_RUNS:
                self._runs.popitem(last=False)
        return found

    def _make(self, thread: str, run: str, asked: dict[str, Any]) -> RunContext:
        user = str(asked.get("user_id") or LOCAL_USER)
        given = asked.get("thread_key")  # names a folder, so it is nothing but a UUID
        key = (
            uuid.UUID(hex=str(given))
            if given
            else uuid.uuid5(uuid.NAMESPACE_URL, f"{user}/{thread}")
        )
        return RunContext(
            user_id=user,
            thread_id=thread,
            thread_key=key.hex,
            run_id=run,
            folders=self._folders(user, key.hex),
            storage=self._storage,
            provider=self._provider,
            model_name=self._model,
            plan=bool(asked.get("is_plan_mode")),
            max_turns=self.max_turns,
        )


class _Release(Middleware):
    """Ends the sandbox when the run has answered: a foreign runner has no `finally` of ours."""

    def __init__(self, provider: SandboxProvider) -> None:
        self._provider = provider

    async def finish(self, state: dict[str, Any], run: RunContext) -> dict[str, Any] | None:
        """Release."""
        if run.sandbox_started:
            await self._provider.release(run.thread_key)
        return None
