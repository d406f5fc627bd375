"""Checks that need more than one section: names that must exist, keys that need each other."""

from __future__ import annotations

from deerflow.config.agents import AT_ONCE, BUILT_IN_CHILDREN
from deerflow.config.document import Path
from deerflow.config.report import Report
from deerflow.config.schema import AppConfig, ModelConfig
from deerflow.config.structure import nearest
from deerflow.config.unused import UNUSED


def check(config: AppConfig, report: Report) -> None:
    """Add an error for each broken reference and a warning for each key without effect."""
    _unique(config, report)
    _has_class(config.models, report)
    names = [model.name for model in config.models]
    for path, name in _model_names(config):
        if name not in names:
            near = nearest(name, names)
            hint = f"did you mean {near}?" if near else f"configured: {', '.join(names) or 'none'}"
            report.error(path, f"no model is called {name!r}; {hint}")
    _addresses(config, report)
    if config.guardrails.enabled and config.guardrails.provider is None:
        report.error(("guardrails", "provider"), "is needed while guardrails are enabled")
    _policy(config, report)
    _children(config, report)
    _unused(config, report)


def _addresses(config: AppConfig, report: Report) -> None:
    """What is kept on a server needs its address."""
    database, bridge = config.database, config.stream_bridge
    if database.backend == "postgres" and not database.postgres_url:
        report.error(
            ("database", "backend"), "postgres needs the address of a server in postgres_url"
        )
    if database.checkpoint_cache.type == "redis" and not database.checkpoint_cache.redis_url:
        report.error(
            ("database", "checkpoint_cache", "type"), "redis needs an address in redis_url"
        )
    if database.checkpoint_cache.type == "redis" and database.backend != "postgres":
        report.warn(
            ("database", "checkpoint_cache", "type"), "no effect: redis goes with backend postgres"
        )
    if bridge is not None and bridge.type == "redis" and not bridge.redis_url:
        report.error(("stream_bridge", "type"), "redis needs an address in redis_url")


def _children(config: AppConfig, report: Report) -> None:
    children = config.subagents
    low, high = AT_ONCE
    if not low <= children.max_concurrent <= high:
        report.warn(
            ("subagents", "max_concurrent"),
            f"{children.max_concurrent} is taken as the nearest of {low} to {high}",
        )
    kinds = [*BUILT_IN_CHILDREN, *children.custom_agents]
    for name in children.agents:
        if name not in kinds:
            report.warn(
                ("subagents", "agents", name),
                f"no effect: there is no kind of child of this name; kinds: {', '.join(kinds)}",
            )


def _policy(config: AppConfig, report: Report) -> None:
    provider = config.guardrails.provider
    known = ["allowlist", "oap"]
    if provider is None or provider.use in known or ":" in provider.use:
        return
    near = nearest(provider.use, known)
    hint = f"did you mean {near}?" if near else "use allowlist, oap or module:Class"
    report.error(("guardrails", "provider", "use"), f"no policy is called {provider.use!r}; {hint}")


def _unique(config: AppConfig, report: Report) -> None:
    for key, entries in (("models", config.models), ("tools", config.tools)):
        seen: dict[str, int] = {}
        for index, entry in enumerate(entries):
            if entry.name in seen:
                report.error(
                    (key, index, "name"),
                    f"{entry.name!r} is already the name of {key}[{seen[entry.name]}]",
                )
            seen.setdefault(entry.name, index)


def _has_class(models: tuple[ModelConfig, ...], report: Report) -> None:
    for index, model in enumerate(models):
        if not model.use and not model.model:
            report.error(("models", index), "either `use` or `model` is needed")
        elif not model.use and ":" not in (model.model or "") and not model.base_url:
            report.error(
                ("models", index, "model"),
                "without `use` it needs its provider in front (openai:gpt-5) or a `base_url`",
            )


def _model_names(config: AppConfig) -> list[tuple[Path, str]]:
    found: list[tuple[Path, str | None]] = [
        (("suggestions", "model_name"), config.suggestions.model_name),
        (("input_polish", "model_name"), config.input_polish.model_name),
        (("title", "model_name"), config.title.model_name),
        (("summarization", "model_name"), config.summarization.model_name),
        (("memory", "backend_config", "model_name"), config.memory.backend_config.model_name),
        (
            ("skill_evolution", "moderation_model_name"),
            config.skill_evolution.moderation_model_name,
        ),
    ]
    for index, model in enumerate(config.models):
        found += [
            (("models", index, "fallbacks", place), name)
            for place, name in enumerate(model.fallbacks)
        ]
    for kind in ("agents", "custom_agents"):
        for key, agent in getattr(config.subagents, kind).items():
            if agent.model != "inherit":  # 2.x writes this for "the lead's"
                found.append((("subagents", kind, key, "model"), agent.model))
    return [(path, name) for path, name in found if name is not None]


def _unused(config: AppConfig, report: Report) -> None:
    default = AppConfig()
    for dotted, reason in UNUSED.items():
        path: Path = tuple(dotted.split("."))
        ours: object = config
        theirs: object = default
        for step in path:
            if theirs is None and ours is not None:  # a section that is not there by default
                theirs = type(ours)()
            ours, theirs = getattr(ours, str(step), None), getattr(theirs, str(step), None)
        if ours != theirs:
            report.warn(path, f"no effect: {reason}")
