"""Finds, reads and reloads the configuration; the only place that reads the environment."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from dotenv import dotenv_values

from deerflow.config.compat import translate, without_unavailable
from deerflow.config.document import Document, read_document, read_json
from deerflow.config.references import check
from deerflow.config.report import Report
from deerflow.config.schema import AppConfig, ExtensionsFileConfig
from deerflow.config.section import Section
from deerflow.config.validate import validate
from deerflow.config.variables import expand
from deerflow.errors import ConfigError

S = TypeVar("S", bound=Section)

STARTUP_ONLY = (
    "plugins",
    "database",
    "checkpointer",
    "run_events",
    "stream_bridge",
    "sandbox",
    "log_level",
    "logging",
    "channels",
    "channel_connections",
    "scheduler",
    "mcp_tasks",
    "run_ownership",
    "runtime",
    "telemetry",
)
"""Sections that a reload leaves alone: what they set up lives as long as the process."""


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration and where it came from.

    Attributes:
        config: resolved and valid.
        extensions: what extensions_config.json says; empty without one.
        path: the file, or None for the embedded defaults.
        extensions_path: that file, or None.
        warnings: one line each: file, line, key.
        unknown_keys: how many of them are about unknown keys.
        source_sha256: of the content of both files; "" for the embedded defaults.
        home: DEER_FLOW_HOME, absolute.
        cwd: where relative paths start.
        reload_problems: why the last reload was refused; empty when `config` is current.
    """

    config: AppConfig
    path: Path | None
    warnings: tuple[str, ...]
    source_sha256: str
    home: Path
    cwd: Path
    extensions: ExtensionsFileConfig = ExtensionsFileConfig()
    extensions_path: Path | None = None
    unknown_keys: int = 0
    reload_problems: tuple[str, ...] = ()


def read_environ(*, cwd: Path | None = None, config: Path | None = None) -> dict[str, str]:
    """The process's environment over `.env` beside the config file over `.env` in `cwd`.

    A variable that is set wins even when it is empty. A missing, unreadable or broken `.env` is
    no error. Values in `.env` are literal: a `$` in them is not resolved.
    """
    where = Path.cwd() if cwd is None else cwd
    real = dict(os.environ)
    merged = _dotenv(where)
    chosen = config or _named("DEER_FLOW_CONFIG_PATH", {**merged, **real}, where)
    if chosen is not None and chosen.parent != where:
        merged |= _dotenv(where / chosen.parent)
    return {**merged, **real}


def load_config(path: Path | None, *, environ: Mapping[str, str], cwd: Path) -> LoadedConfig:
    """Load the file at `path`, else DEER_FLOW_CONFIG_PATH, else ./config.yaml, else the defaults.

    Args:
        path: as given by the user; relative to `cwd`.
        environ: as `read_environ` returns it.
        cwd: where the look-up starts; DEER_FLOW_HOME is `.deer-flow` below it unless set.

    Raises:
        ConfigError: with every problem of every file, one line each.
    """
    main = _main_source(path, environ, cwd)
    second = _extensions_source(main, environ, cwd)
    config, extensions = AppConfig(), ExtensionsFileConfig()
    reports: list[Report] = []
    if main is not None:
        config = _validated(main, AppConfig, environ, reports) or config
    if second is not None:
        extensions = _validated(second, ExtensionsFileConfig, environ, reports) or extensions
    problems = [line for report in reports for line in report.problem_lines()]
    if problems:
        raise ConfigError(problems)
    return LoadedConfig(
        config=config,
        extensions=extensions,
        path=main.path if main else None,
        extensions_path=second.path if second else None,
        warnings=tuple(line for report in reports for line in report.warning_lines()),
        unknown_keys=sum(len(report.unknown) for report in reports),
        source_sha256=_digest(main, second),
        home=_named("DEER_FLOW_HOME", environ, cwd) or cwd / ".deer-flow",
        cwd=cwd,
    )


def reload_config(previous: LoadedConfig, *, environ: Mapping[str, str]) -> LoadedConfig:
    """Read the files of `previous` again, by content and never by time stamp.

    Returns `previous` itself when nothing changed. A broken file keeps the last good state and
    says so in `warnings` and `reload_problems`. Sections of STARTUP_ONLY keep their values, with
    a warning for each that differs. Never raises.
    """
    try:
        fresh = load_config(previous.path, environ=environ, cwd=previous.cwd)
    except ConfigError as error:
        note = "reload refused, the last good configuration stays in force"
        return replace(
            previous,
            warnings=(*_without_reload(previous), f"{note}: {'; '.join(error.problems)}"),
            reload_problems=tuple(error.problems),
        )
    kept: dict[str, object] = {}
    notes: list[str] = []
    for key in STARTUP_ONLY:
        before = getattr(previous.config, key)
        if getattr(fresh.config, key) != before:
            kept[key] = before
            notes.append(f"{key}: changed, takes effect at the next start")
    fresh = replace(
        fresh,
        config=fresh.config.model_copy(update=kept) if kept else fresh.config,
        warnings=(*fresh.warnings, *notes),
        home=previous.home,
    )
    return previous if fresh == previous else fresh


def _without_reload(loaded: LoadedConfig) -> tuple[str, ...]:
    return loaded.warnings[:-1] if loaded.reload_problems else loaded.warnings


@dataclass(frozen=True, slots=True)
class _Source:
    """A file, read once. `failure` says why there is no `content`."""

    path: Path
    name: str
    content: bytes
    failure: str = ""


def _main_source(path: Path | None, environ: Mapping[str, str], cwd: Path) -> _Source | None:
    asked = cwd / path if path else _named("DEER_FLOW_CONFIG_PATH", environ, cwd)
    return _open(asked, cwd) if asked else _open(cwd / "config.yaml", cwd, optional=True)


def _extensions_source(
    main: _Source | None, environ: Mapping[str, str], cwd: Path
) -> _Source | None:
    asked = _named("DEER_FLOW_EXTENSIONS_CONFIG_PATH", environ, cwd)
    if asked:
        return _open(asked, cwd)
    for folder in (main.path.parent, cwd) if main else (cwd,):
        found = _open(folder / "extensions_config.json", cwd, optional=True)
        if found is not None:
            return found
    return None


def _named(name: str, environ: Mapping[str, str], cwd: Path) -> Path | None:
    """The path in a variable; an empty text names nothing."""
    value = environ.get(name)
    return cwd / os.path.expanduser(value) if value else None


def _open(path: Path, cwd: Path, *, optional: bool = False) -> _Source | None:
    name = str(path.relative_to(cwd)) if path.is_relative_to(cwd) else str(path)
    try:
        return _Source(path, name, path.read_bytes())
    except FileNotFoundError:
        return None if optional else _Source(path, name, b"", "there is no such file")
    except OSError as error:
        return _Source(path, name, b"", f"cannot be read: {error.strerror}")


def _validated(
    source: _Source, schema: type[S], environ: Mapping[str, str], reports: list[Report]
) -> S | None:
    document = _parse(source, as_json=schema is ExtensionsFileConfig)
    report = Report(source.name, document)
    reports.append(report)
    for line, path, message in document.problems:
        report.error(path, message, line=line)
    data = expand(
        document.data,
        environ,
        report.error,
        missing_is_empty=schema is ExtensionsFileConfig,
    )
    if schema is AppConfig:
        translate(data, report)
    section = validate(data, schema, report)
    if isinstance(section, AppConfig):
        check(section, report)
        section = without_unavailable(section)
    return section


def _parse(source: _Source, *, as_json: bool) -> Document:
    if source.failure:
        return Document(problems=[(1, (), source.failure)])
    try:
        text = source.content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = source.content.count(b"\n", 0, error.start) + 1
        return Document(problems=[(line, (), "is not UTF-8 text")])
    return read_json(text) if as_json else read_document(text)


def _digest(*sources: _Source | None) -> str:
    present = [source for source in sources if source is not None]
    digest = hashlib.sha256()
    for source in present:
        digest.update(hashlib.sha256(source.content).digest())
    return digest.hexdigest() if present else ""


def _dotenv(folder: Path) -> dict[str, str]:
    try:
        text = (folder / ".env").read_bytes().decode("utf-8-sig", errors="replace")
    except OSError:
        return {}
    found = dotenv_values(stream=io.StringIO(text), interpolate=False)
    return {name: value for name, value in found.items() if value is not None}
