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
from deerflow.config.document import Document, read_document
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
    chosen = config or _pointer("DEER_FLOW_CONFIG_PATH", {**merged, **real}, where)
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
    home = cwd / Path(environ.get("DEER_FLOW_HOME") or ".deer-flow").expanduser()
    source, extensions_source, errors = _sources(path, environ, cwd)
    config, main = _read(source, AppConfig, environ, cwd)
    extensions, second = _read(extensions_source, ExtensionsFileConfig, environ, cwd)
    reports = [report for report in (main, second) if report is not None]
    problems = errors + [line for report in reports for line in report.problem_lines()]
    if problems:
        raise ConfigError(problems)
    return LoadedConfig(
        config=config or AppConfig(),
        extensions=extensions or ExtensionsFileConfig(),
        path=source,
        extensions_path=extensions_source,
        warnings=tuple(line for report in reports for line in report.warning_lines()),
        unknown_keys=sum(len(report.unknown) for report in reports),
        source_sha256=_digest(source, extensions_source),
        home=home,
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
            notes.append(f"{_name(fresh)}: {key}: changed, takes effect at the next start")
    fresh = replace(
        fresh,
        config=fresh.config.model_copy(update=kept) if kept else fresh.config,
        warnings=(*fresh.warnings, *notes),
        home=previous.home,
    )
    return previous if fresh == previous else fresh


def _without_reload(loaded: LoadedConfig) -> tuple[str, ...]:
    return loaded.warnings[:-1] if loaded.reload_problems else loaded.warnings


def _name(loaded: LoadedConfig) -> str:
    return _shown(loaded.path, loaded.cwd) if loaded.path else "configuration"


def _sources(
    path: Path | None, environ: Mapping[str, str], cwd: Path
) -> tuple[Path | None, Path | None, list[str]]:
    """Both files, and an error for each that was asked for and cannot be."""
    errors: list[str] = []
    asked = path or _pointer("DEER_FLOW_CONFIG_PATH", environ, cwd)
    source = cwd / asked if asked else cwd / "config.yaml"
    if not asked and not source.exists():
        source = None
    extensions = _pointer("DEER_FLOW_EXTENSIONS_CONFIG_PATH", environ, cwd)
    if extensions is None:
        folders = [source.parent, cwd] if source else [cwd]
        found = (folder / "extensions_config.json" for folder in folders)
        extensions = next((file for file in found if file.is_file()), None)
    for file in (source, extensions):
        if file is not None and not file.is_file():
            errors.append(f"{_shown(file, cwd)}: there is no such file")
    return source, extensions, errors


def _pointer(name: str, environ: Mapping[str, str], cwd: Path) -> Path | None:
    value = environ.get(name)  # an empty text names no file
    return cwd / Path(value).expanduser() if value else None


def _read(
    source: Path | None, schema: type[S], environ: Mapping[str, str], cwd: Path
) -> tuple[S | None, Report | None]:
    if source is None or not source.is_file():
        return None, None
    name = _shown(source, cwd)
    try:
        text = source.read_bytes().decode("utf-8-sig")
    except OSError as error:
        return None, _failed(name, 1, f"cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        return None, _failed(name, line, "is not UTF-8 text")
    document = read_document(text)
    report = Report(name, document)
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
    return section, report


def _failed(name: str, line: int, message: str) -> Report:
    report = Report(name, Document())
    report.error((), message, line=line)
    return report


def _shown(file: Path, cwd: Path) -> str:
    return str(file.relative_to(cwd)) if file.is_relative_to(cwd) else str(file)


def _digest(*files: Path | None) -> str:
    present = [file for file in files if file is not None]
    if not present:
        return ""
    digest = hashlib.sha256()
    for file in present:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _dotenv(folder: Path) -> dict[str, str]:
    try:
        text = (folder / ".env").read_bytes().decode("utf-8-sig", errors="replace")
    except OSError:
        return {}
    found = dotenv_values(stream=io.StringIO(text), interpolate=False)
    return {name: value for name, value in found.items() if value is not None}
