"""The only place that names implementations: stores, sandbox, models and runs of a process."""

from __future__ import annotations

import gc
import urllib.parse
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool

from deerflow.config.load import LoadedConfig
from deerflow.config.schema import AppConfig, ModelConfig
from deerflow.errors import StorageError, UsageError
from deerflow.guardrails.allowlist import AllowlistProvider
from deerflow.guardrails.oap import OapProvider, passport_file
from deerflow.guardrails.protocol import GuardrailProvider
from deerflow.lead.asking import asks, extracting_model
from deerflow.lead.graphs import LeadAgents
from deerflow.lead.parts import LeadParts
from deerflow.lead.profiles import BUILT_IN, FolderProfiles, LeadProfile
from deerflow.memory.deermem.deermem import DeerMem
from deerflow.memory.deermem.file import FileMemoryStorage
from deerflow.memory.deermem.queue import MemoryUpdateQueue
from deerflow.memory.deermem.updater import MemoryUpdater
from deerflow.memory.inmemory import InMemoryStorage as InMemoryMemories
from deerflow.memory.noop import NoopMemoryManager
from deerflow.memory.protocol import Ask, MemoryManager, MemoryStorage
from deerflow.middlewares.token_usage import usage_of
from deerflow.models.catalog import ModelCatalog
from deerflow.models.discover import discover
from deerflow.models.protocol import Catalog
from deerflow.models.resilience import Resilience
from deerflow.plugins import (
    load_guardrails,
    load_memory_manager,
    load_memory_storage,
    load_middlewares,
    load_provider,
    load_skill_store,
)
from deerflow.runtime.admission import Folders, RunParts, check_request, no_thread
from deerflow.runtime.request import RunRequest
from deerflow.runtime.runs import Runs, remove_thread
from deerflow.sandbox.files import FileTree
from deerflow.sandbox.host import HostProvider
from deerflow.sandbox.inmemory import InMemoryProvider
from deerflow.sandbox.local import LocalProvider
from deerflow.sandbox.protocol import SandboxProvider, ThreadFolders
from deerflow.sandbox.python import describe, python_folder, read_manifest
from deerflow.skills.folder import FolderSkills
from deerflow.skills.protocol import SkillStore
from deerflow.storage.inmemory import InMemoryStorage
from deerflow.storage.protocol import Storage
from deerflow.storage.sql.open import database_file, open_storage
from deerflow.subagents.roster import SubagentSpec
from deerflow.tools.limits import ToolLimits
from deerflow.tools.memory import memory_tools
from deerflow.tools.registry import get_available_tools


@dataclass(frozen=True, slots=True)
class Harness:
    """Everything of one process, open.

    Attributes:
        loaded: the configuration and where it came from.
        storage: the stores.
        provider: the sandbox provider.
        catalog: the models.
        agents: compiled lead agents.
        runs: starts and finishes runs.
        folders: host folders for (user_id, thread_key).
        memory: what is remembered of users; None when memory is off.
        skills: where skills are kept.
        found: one line that says which model was found when none was configured, else "".
    """

    loaded: LoadedConfig
    storage: Storage
    provider: SandboxProvider
    catalog: Catalog
    agents: LeadAgents
    runs: Runs
    folders: Folders
    memory: MemoryManager | None = None
    skills: SkillStore | None = None
    found: str = ""


@dataclass(frozen=True, slots=True)
class Given:
    """What a caller in code brings beside the configuration.

    Attributes:
        tools: further tools.
        child_tools: tools for the kinds of child that name them.
        models: chat models by name; the first is the default.
        profile: who leads.
        subagents: further kinds of child.
    """

    tools: Sequence[BaseTool] = ()
    child_tools: Sequence[BaseTool] = ()
    models: Mapping[str, BaseChatModel] = field(default_factory=dict[str, BaseChatModel])
    profile: LeadProfile = BUILT_IN
    subagents: Sequence[SubagentSpec] = ()


@asynccontextmanager
async def open_stores(loaded: LoadedConfig) -> AsyncGenerator[Storage]:
    """The stores alone, for commands that start no run.

    Raises:
        StorageError: home cannot be made or written, the database is damaged or of a newer version.
    """
    try:
        loaded.home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"The home {loaded.home} cannot be made ({error.strerror}).",
            cure="Set DEER_FLOW_HOME to a folder that can be written.",
        ) from error
    storage = await open_storage(loaded.config.database, loaded.home)
    try:
        yield storage
    finally:
        await storage.close()


def has_stores(loaded: LoadedConfig) -> bool:
    """Whether this home has a database; asking makes nothing."""
    database = loaded.config.database
    return database.backend != "sqlite" or database_file(database, loaded.home).exists()


def memory_stores() -> Storage:
    """Stores that last as long as the process, for runners that bring their own persistence."""
    return InMemoryStorage()


def lead_parts(
    loaded: LoadedConfig,
    models: Sequence[ModelConfig],
    *,
    environ: Mapping[str, str],
    given: Given | None = None,
    storage: Storage | None = None,
) -> LeadParts:
    """What lead agents are made from, each part with its own section.

    Args:
        loaded: the configuration.
        models: configured or found.
        environ: keys of models are looked up in it.
        given: what a caller in code brings.
        storage: whose saver the agents use; None leaves checkpoints to a foreign runner.

    Raises:
        ConfigError: a class or name in the configuration does not exist.
    """
    config, given = loaded.config, given or Given()
    limits = ToolLimits.of(config.sandbox)
    foreign = [*config.extensions.middlewares, *loaded.extensions.middlewares]
    resilience = Resilience(config.llm_call, config.circuit_breaker, models=len(models))
    for model in models:
        if model.first_byte_timeout or model.idle_timeout:
            resilience.allow(
                model.name, first_byte=model.first_byte_timeout, idle=model.idle_timeout
            )
    return LeadParts(
        config=config,
        catalog=ModelCatalog(models, environ=environ, home=loaded.home, given=given.models),
        resilience=resilience,
        tools=[
            *get_available_tools(config.tools, limits=limits, deferred=config.tool_search.enabled),
            *given.tools,
        ],
        child_tools=given.child_tools,
        profile=given.profile,
        subagents=given.subagents,
        saver=storage.saver if storage is not None else None,
        extra=load_middlewares(foreign),
        sandbox_python=describe(python_folder(loaded.home)),
    )


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
        storage = await stack.enter_async_context(open_stores(loaded))
        memory = make_memory(loaded, storage, catalog, parts.resilience)
        if memory is not None:
            stack.push_async_callback(memory.close)
        by_model = memory_tools(memory) if memory and config.memory.mode == "tool" else ()
        parts = replace(
            parts,
            tools=[*parts.tools, *by_model],
            saver=storage.saver,
            memory=memory,
            skills=make_skills(loaded),
            guardrails=make_guardrails(loaded),
            profiles=FolderProfiles(lambda user: user_folder(loaded, user) / "agents"),
        )
        agents = LeadAgents(parts)
        runs = Runs(
            RunParts(
                config=config,
                storage=storage,
                provider=provider,
                catalog=catalog,
                agent=agents,
                folders=thread_folders(loaded),
                usage=usage_of,
                profile=agents.profile,
            )
        )
        stack.push_async_callback(runs.close)
        gc.freeze()  # what is here now stays: full collections that skip it save a run 10 % CPU
        folders = thread_folders(loaded)
        yield Harness(
            loaded, storage, provider, catalog, agents, runs, folders, memory, parts.skills, found
        )


def make_memory(
    loaded: LoadedConfig, storage: Storage, catalog: Catalog, resilience: Resilience
) -> MemoryManager | None:
    """The memory that `memory.manager_class` names; None when memory is off.

    Raises:
        ConfigError: a class of the configuration that cannot be loaded.
        StorageError: see `make_memory_storage`.
    """
    config, memory = loaded.config, loaded.config.memory
    if not memory.enabled:
        return None
    if memory.manager_class == "noop":
        return NoopMemoryManager()
    if memory.manager_class != "deermem":
        return load_memory_manager(memory.manager_class, memory)
    backend = memory.backend_config
    kept = make_memory_storage(config, loaded.home)
    name = extracting_model(catalog, backend)
    if name is None:
        return DeerMem(kept, None, backend)
    ask_for = asks(name, catalog, resilience, storage, config.token_budget)
    updater = MemoryUpdater(ask_for, threshold=backend.fact_confidence_threshold)
    queue = MemoryUpdateQueue(storage.memory_queue, updater, kept, backend)
    return DeerMem(kept, queue, backend)


def make_memory_storage(config: AppConfig, home: Path) -> MemoryStorage:
    """Where memories are kept, as `memory.backend_config` says.

    Files below the home, or a database of their own beside the harness's: a file, or PostgreSQL
    when `storage_path` is its address. With a database in memory nothing is written without a path.

    Raises:
        ConfigError: a class of the configuration that cannot be loaded.
        StorageError: the driver of PostgreSQL is not installed.
    """
    backend, place = config.memory.backend_config, config.memory.backend_config.storage_path
    if backend.storage not in ("file", "sql"):
        return load_memory_storage(backend.storage, backend)
    if place is None and config.database.backend == "memory":
        return InMemoryMemories()
    if backend.storage == "file":
        folder = home / (place or "memory")
        # the first 2.x files name the one file in which all was kept
        return FileMemoryStorage(folder.with_suffix("") if folder.suffix == ".json" else folder)
    from deerflow.memory.deermem.sql import (  # noqa: PLC0415  # SQLAlchemy costs 0.3 s
        SqlMemoryStorage,
    )

    if place is not None and place.startswith("postgres"):
        return SqlMemoryStorage(place)
    data = home / place if place else database_file(config.database, home).parent
    return SqlMemoryStorage(data / "memory.db")


@asynccontextmanager
async def open_memory(loaded: LoadedConfig) -> AsyncGenerator[MemoryManager]:
    """The memory alone, for commands that extract nothing; it is there even when memory is off.

    Raises:
        ConfigError: a class of the configuration that cannot be loaded.
        StorageError: see `open_stores`.
    """
    config = loaded.config.memory
    async with AsyncExitStack() as stack:
        if config.manager_class == "noop":
            yield NoopMemoryManager()
            return
        kept = make_memory_storage(loaded.config, loaded.home)
        queue: MemoryUpdateQueue | None = None
        if has_stores(loaded):
            stores = await stack.enter_async_context(open_stores(loaded))
            updater = MemoryUpdater(_no_model)
            queue = MemoryUpdateQueue(stores.memory_queue, updater, kept, config.backend_config)
        memory = DeerMem(kept, queue, config.backend_config)
        stack.push_async_callback(memory.close)
        yield memory


def _no_model(user_id: str) -> Ask:
    raise UsageError(f"No model extracts here for {user_id}.")


def make_skills(loaded: LoadedConfig) -> SkillStore | None:
    """The store of skills that `skills.use` names; None when no folder of skills is there."""
    use = loaded.config.skills.use
    if use != "local":
        return load_skill_store(use)
    folders = thread_folders(loaded)
    enabled = {name: state.enabled for name, state in loaded.extensions.skills.items()}
    return FolderSkills(
        folders("", "").skills_public, lambda user: folders(user, "").skills_custom, enabled
    )


def make_guardrails(loaded: LoadedConfig) -> GuardrailProvider | None:
    """The provider that `guardrails.provider` names; None when nobody decides.

    Raises:
        ConfigError: it cannot be loaded, or its settings are wrong.
    """
    config = loaded.config.guardrails
    if not config.enabled or config.provider is None:
        return None
    use, settings = config.provider.use, dict(config.provider.config)
    if use == "oap":
        base = loaded.path.parent if loaded.path else loaded.cwd
        folder = loaded.home / "passports"
        settings["file"] = passport_file(config.passport, folder=folder, base=base)
    return load_guardrails(_GUARDRAILS.get(use, use), settings)


_GUARDRAILS = {
    "allowlist": f"{AllowlistProvider.__module__}:{AllowlistProvider.__name__}",
    "oap": f"{OapProvider.__module__}:{OapProvider.__name__}",
}


async def delete_thread(loaded: LoadedConfig, user_id: str, thread_id: str) -> bool:
    """Remove a thread with everything of it; False when there is none.

    Raises:
        ConflictError: a living process executes a run of it.
    """
    async with open_stores(loaded) as storage:
        return await remove_thread(storage, thread_folders(loaded), user_id, thread_id)


async def models_of(
    loaded: LoadedConfig, environ: Mapping[str, str]
) -> tuple[tuple[ModelConfig, ...], str]:
    """The configured models; else what is found on this machine, with a line that says so."""
    if loaded.config.models:
        return loaded.config.models, ""
    found = await discover(environ, loaded.home)
    return found.models, found.line


def make_provider(loaded: LoadedConfig) -> SandboxProvider:
    """The provider that `sandbox.use` names; the host itself only by that word."""
    config = loaded.config.sandbox
    if config.use == "memory":
        return InMemoryProvider()
    python = python_folder(loaded.home)
    kinds = {"local": LocalProvider, "host": HostProvider}
    if config.use in kinds:
        make = kinds[config.use]
        built = python if read_manifest(python) is not None else None
        return make(config, state=loaded.home / "sandbox", python=built)
    return load_provider(config.use)


def thread_files(folders: ThreadFolders) -> FileTree:
    """The files of a thread by their virtual paths, without a sandbox; no link leads outside."""
    return FileTree(folders)


def user_folder(loaded: LoadedConfig, user_id: str) -> Path:
    """The folder of a user: threads, own skills, custom agents."""
    name = urllib.parse.quote(user_id, safe="").replace(".", "%2E")
    return loaded.home / "users" / name


def thread_folders(loaded: LoadedConfig) -> Folders:
    """Where the files of (user_id, thread_key) lie: `users/{uid}/threads/{key}/user-data`."""
    public = Path(loaded.config.skills.path or loaded.home / "skills") / "public"
    shown = public if public.is_dir() else None

    def folders(user_id: str, thread_key: str) -> ThreadFolders:
        user = user_folder(loaded, user_id)
        custom = user / "skills"
        return ThreadFolders(
            user / "threads" / thread_key / "user-data",
            shown,
            custom if custom.is_dir() else None,
        )

    return folders
