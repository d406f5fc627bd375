"""Rewrites the class paths of a 2.x file into our names before the schema sees them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from deerflow.config import aliases
from deerflow.config.aliases import Alias
from deerflow.config.document import Path
from deerflow.config.report import Report
from deerflow.config.schema import CONFIG_VERSION, AppConfig
from deerflow.config.section import mapping
from deerflow.config.structure import nearest

_UNAVAILABLE = "unavailable:"
_SINGLE: tuple[tuple[tuple[str, ...], str, dict[str, Alias]], ...] = (
    (("skills",), "use", aliases.SKILLS),
    (("memory",), "manager_class", aliases.MEMORY),
    (("guardrails", "provider"), "use", aliases.GUARDRAILS),
    (("authorization", "provider"), "use", aliases.GUARDRAILS),
)


def translate(data: dict[str, Any], report: Report) -> None:
    """Change `data` in place; what cannot be translated is an error, a left-out tool a warning."""
    _version(data, report)
    for path, entry in _entries(data, "models"):
        _replace(entry, "use", (*path, "use"), aliases.MODELS, report)
    _tools(data, report)
    _sandbox(data, report)
    for path, key, table in _SINGLE:
        entry: dict[str, Any] | None = data
        for step in path:
            entry = mapping(entry.get(step)) if entry else None
        if entry:
            _replace(entry, key, (*path, key), table, report)


def without_unavailable(config: AppConfig) -> AppConfig:
    """The configuration without the tools that `translate` marked as unavailable."""
    kept = tuple(tool for tool in config.tools if tool.use != _UNAVAILABLE)
    return config if len(kept) == len(config.tools) else config.model_copy(update={"tools": kept})


def _version(data: dict[str, Any], report: Report) -> None:
    version = data.get("config_version")
    if isinstance(version, int) and not isinstance(version, bool) and version != CONFIG_VERSION:
        age = "older" if version < CONFIG_VERSION else "newer"
        report.warn(
            ("config_version",),
            f"the file says {version}, {age} than {CONFIG_VERSION}; it is read as {CONFIG_VERSION}",
        )


def _entries(data: dict[str, Any], key: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    items = data.get(key)
    if isinstance(items, list):
        for index, item in enumerate(cast("list[Any]", items)):
            entry = mapping(item)
            if entry is not None:
                yield (key, index), entry


def _replace(
    entry: dict[str, Any], key: str, path: Path, table: dict[str, Alias], report: Report
) -> None:
    value = entry.get(key)
    if not isinstance(value, str):
        return
    alias = aliases.resolve(value, table)
    if alias.use is None:
        report.error(path, alias.cure)
        return
    entry[key] = alias.use
    for name, default in alias.defaults.items():
        entry.setdefault(name, default)


def _tools(data: dict[str, Any], report: Report) -> None:
    for path, entry in _entries(data, "tools"):
        use = entry.get("use")
        if not isinstance(use, str):
            continue
        alias = aliases.resolve(use, aliases.TOOLS)
        if alias.use is None:
            report.warn(path, alias.cure)
        # Marked rather than removed: the indexes of the others still point at their lines.
        entry["use"] = alias.use or _UNAVAILABLE


def _sandbox(data: dict[str, Any], report: Report) -> None:
    entry = mapping(data.get("sandbox"))
    if entry is None:
        return
    path = ("sandbox", "use")
    before = entry.get("use")
    _replace(entry, "use", path, aliases.SANDBOXES, report)
    use = entry.get("use")
    if isinstance(use, str) and use == before and ":" not in use:
        if use not in aliases.SANDBOX_NAMES:
            near = nearest(use, sorted(aliases.SANDBOX_NAMES))
            hint = f"did you mean {near}?" if near else aliases.SANDBOXES["AioSandboxProvider"].cure
            report.error(path, f"no sandbox is called {use!r}; {hint}")
    if use != "host" and str(entry.get("allow_host_bash")).lower() in ("true", "yes", "on", "1"):
        report.warn(
            ("sandbox", "allow_host_bash"),
            "bash runs isolated all the same; only `sandbox.use: host` runs it on the host",
        )
