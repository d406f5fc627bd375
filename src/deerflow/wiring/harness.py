"""Opens everything of one process: the harness that runs are started on."""

from __future__ import annotations

import gc
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace

from langchain_core.tools import BaseTool

from deerflow.config.load import LoadedConfig
from deerflow.lead.graphs import LeadAgents
from deerflow.lead.parts import LeadParts
from deerflow.lead.profiles import FolderProfiles
from deerflow.memory.protocol import MemoryManager
from deerflow.middlewares.token_usage import usage_of
from deerflow.models.protocol import Catalog
from deerflow.runtime.checks import check_request, no_thread
from deerflow.runtime.parts import Folders, RunParts
from deerflow.runtime.request import RunRequest
from deerflow.runtime.runs import Runs
from deerflow.sandbox.protocol import SandboxProvider
from deerflow.skills.protocol import SkillStore
from deerflow.storage.protocol import Storage
from deerflow.tools.memory import memory_tools
from deerflow.wiring.memory import make_memory
from deerflow.wiring.parts import (
    Given,
    lead_parts,
    make_guardrails,
    make_provider,
    models_of,
)
from deerflow.wiring.skills import make_skills
from deerflow.wiring.stores import has_stores, open_stores, thread_folders, user_folder
from deerflow.wiring.telemetry import traced, tracing


@dataclass(slots=True)
class Harness:
    """Everything of one process, open.

    `loaded`, `catalog` and `found` are others after `reload`.

    Attributes:
        loaded: the configuration and where it came from.
        storage: the stores.
        provider: the sandbox provider.
        catalog: the models.
        agents: compiled lead agents.
        runs: starts and finishes runs.
        folders: host folders for (user_id, thread_key).
        profiles: users' custom agents.
        parts: what runs are driven with.
        memory: what is remembered of users; None when memory is off.
        skills: where skills are kept.
        found: one line that says which model was found when none was configured, else "".
        environ: in which keys of models are looked up.
        given: what a caller in code brought.
        closing: closes everything at the end.
    """

    loaded: LoadedConfig
    storage: Storage
    provider: SandboxProvider
    catalog: Catalog
    agents: LeadAgents
    runs: Runs
    folders: Folders
    profiles: FolderProfiles
    parts: RunParts
    memory: MemoryManager | None = None
    skills: SkillStore | None = None
    found: str = ""
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    given: Given = field(default_factory=Given)
    closing: AsyncExitStack = field(default_factory=AsyncExitStack)


@asynccontextmanager
async def open_harness(
    loaded: LoadedConfig,
    environ: Mapping[str, str],
    *,
    tools: Sequence[BaseTool] = (),
    request: RunRequest | None = None,
    given: Given | None = None,
) -> AsyncGenerator[Harness]:
    """Open everything that runs need; closing cancels what still runs and leaves no process behind.

    Args:
        loaded: the configuration.
        environ: as `read_environ` gives it; keys of models are looked up in it.
        tools: further tools, beside those of the configuration.
        request: checked before anything is made on the disk, so that a refused run leaves no trace.
        given: what a caller in code brings; instead of `tools`.

    Raises:
        ConfigError: a class or name in the configuration does not exist.
        StorageError: see `open_stores`.
        UsageError: see `check_request`.
    """
    config = loaded.config
    async with AsyncExitStack() as stack:
        given = given or Given(tools=tools)
        models, found = ((), "") if given.models else await models_of(loaded, environ)
        models = models or loaded.config.models
        parts = lead_parts(loaded, models, environ=environ, given=given)
        catalog = parts.catalog
        stack.push_async_callback(parts.catalog.aclose)
        provider = make_provider(loaded)
        stack.push_async_callback(provider.close)
        if request is not None:
            await check_request(request, config, catalog)
            if request.resume and not has_stores(loaded):
                raise no_thread(request.thread_id)
        spans = await stack.enter_async_context(tracing(config.telemetry))
        storage = await stack.enter_async_context(open_stores(loaded))
        memory = make_memory(loaded, storage, catalog, parts.resilience)
        if memory is not None:
            stack.push_async_callback(memory.close)
        profiles = FolderProfiles(lambda user: user_folder(loaded, user) / "agents")
        parts = joined(parts, loaded, storage, memory, profiles)
        agents = LeadAgents(parts)
        driven = RunParts(
            config=config,
            storage=storage,
            provider=provider,
            catalog=catalog,
            agent=agents,
            folders=thread_folders(loaded),
            usage=usage_of,
            profile=agents.profile,
            children=lambda: agents.executor,
        )
        await stack.enter_async_context(traced(spans, driven))
        runs = Runs(driven)
        stack.push_async_callback(runs.close)
        gc.freeze()  # what is here now stays: full collections that skip it save a run 10 % CPU
        yield Harness(
            loaded,
            storage,
            provider,
            catalog,
            agents,
            runs,
            thread_folders(loaded),
            profiles,
            driven,
            memory,
            parts.skills,
            found,
            environ,
            given,
            stack,
        )


def joined(
    parts: LeadParts,
    loaded: LoadedConfig,
    storage: Storage,
    memory: MemoryManager | None,
    profiles: FolderProfiles,
) -> LeadParts:
    """Parts of lead agents together with what is open: stores, memory, skills, guardrails."""
    by_tool = memory is not None and loaded.config.memory.mode == "tool"
    return replace(
        parts,
        tools=[*parts.tools, *(memory_tools(memory) if memory and by_tool else ())],
        saver=storage.saver,
        memory=memory,
        skills=make_skills(loaded, storage.documents),
        guardrails=make_guardrails(loaded),
        profiles=profiles,
    )
