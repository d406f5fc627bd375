"""Names the implementations: what lead agents are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool

from deerflow.config.load import LoadedConfig
from deerflow.config.schema import ModelConfig
from deerflow.guardrails.allowlist import AllowlistProvider
from deerflow.guardrails.oap import OapProvider, passport_file
from deerflow.guardrails.protocol import GuardrailProvider
from deerflow.lead.parts import LeadParts
from deerflow.lead.profiles import BUILT_IN, LeadProfile
from deerflow.models.catalog import ModelCatalog
from deerflow.models.discover import discover
from deerflow.models.resilience import Resilience
from deerflow.plugins import load_guardrails, load_middlewares, load_provider
from deerflow.sandbox.host import HostProvider
from deerflow.sandbox.inmemory import InMemoryProvider
from deerflow.sandbox.local import LocalProvider
from deerflow.sandbox.protocol import SandboxProvider
from deerflow.sandbox.python import describe, python_folder, read_manifest
from deerflow.storage.protocol import Storage
from deerflow.subagents.roster import SubagentSpec
from deerflow.tools.limits import ToolLimits
from deerflow.tools.registry import get_available_tools


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
