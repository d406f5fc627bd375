"""`deerflow doctor`: what this machine gives and what is missing, each line with its cure."""

from __future__ import annotations

import asyncio
import platform
import shutil
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import orjson

from deerflow import __version__
from deerflow.cli import output
from deerflow.cli.exits import ANSWERED, BAD_USAGE, FAILED
from deerflow.cli.run import size
from deerflow.cli.source import read
from deerflow.config.load import LoadedConfig
from deerflow.errors import ConfigError, DeerFlowError
from deerflow.sandbox.protocol import ProbeReport
from deerflow.wiring.parts import lead_parts, make_provider, models_of
from deerflow.wiring.stores import open_stores

Mark = Literal["ok", "warn", "fail"]
_SIGNS = {"ok": "✓", "warn": "!", "fail": "✗"}
LOW_SPACE = 200_000_000
"""Bytes of free space below which a run may not get far."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report: name, verdict, what was found, what to do."""

    name: str
    mark: Mark
    text: str
    cure: str = ""


@runtime_checkable
class _FromFile(Protocol):
    """A model that runs from a file of this machine; `repo` is set when a hub has it."""

    repo: str | None

    async def prepare(self) -> Path:
        """Check the file."""
        ...


def examine(config: Path | None, as_json: bool) -> int:
    """Print the report. Gives 0 when a run can start, 1 when not, 2 for a broken configuration."""
    findings = [Finding("deerflow", "ok", f"{__version__}, Python {platform.python_version()}")]
    try:
        loaded, environ = read(config)
    except ConfigError as error:
        problems = [Finding("configuration", "fail", text, error.cure) for text in error.problems]
        _print([*findings, *problems], as_json)
        return BAD_USAGE
    findings += _configuration(loaded)
    findings += asyncio.run(_parts(loaded, environ))
    _print(findings, as_json)
    return FAILED if any(finding.mark == "fail" for finding in findings) else ANSWERED


def _configuration(loaded: LoadedConfig) -> list[Finding]:
    where = str(loaded.path) if loaded.path else "embedded defaults (no config.yaml)"
    return [
        Finding("configuration", "ok", where),
        *(Finding("configuration", "warn", warning) for warning in loaded.warnings),
        Finding("home", "ok", str(loaded.home)),
    ]


async def _parts(loaded: LoadedConfig, environ: Mapping[str, str]) -> list[Finding]:
    """Each part by itself, so that one failure does not hide another."""
    findings: list[Finding] = []
    for name, part in (
        ("storage", _storage(loaded)),
        ("sandbox", _sandbox(loaded)),
        ("model", _model(loaded, environ)),
    ):
        try:
            findings += [finding async for finding in part]
        except ConfigError as error:
            findings += [Finding(name, "fail", text, error.cure) for text in error.problems]
        except DeerFlowError as error:
            findings.append(Finding(name, "fail", error.message, error.cure))
    return findings


async def _storage(loaded: LoadedConfig) -> AsyncIterator[Finding]:
    async with open_stores(loaded) as storage:
        free = (await asyncio.to_thread(shutil.disk_usage, loaded.home)).free
        text = f"{storage.kind}, {size(free)} free"
    if free < LOW_SPACE:
        yield Finding("storage", "warn", text, "Free some space, or move DEER_FLOW_HOME.")
    else:
        yield Finding("storage", "ok", text)


_VERDICTS: dict[str, tuple[Mark, str]] = {
    "none": (
        "fail",
        "Install bubblewrap, or use a kernel with Landlock; `sandbox.use: host` isolates nothing.",
    ),
    "host": ("warn", "Commands are not isolated; set sandbox.use to local."),
    "memory": ("warn", "Commands are not run at all; set sandbox.use to local."),
}
"""What to say of a level that isolates nothing."""


def _listed(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, (list, tuple)) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


async def _sandbox(loaded: LoadedConfig) -> AsyncIterator[Finding]:
    provider = make_provider(loaded)
    try:
        probe = await provider.probe()
    finally:
        await provider.close()
    mark, cure = _VERDICTS.get(probe.level, ("ok", ""))
    yield Finding("sandbox", mark, _level(probe), cure)
    for weakness in _listed(probe.features.get("weaknesses")):
        yield Finding("sandbox", "warn", weakness)
    for reason in probe.reasons:
        yield Finding("sandbox", "warn", f"passed over: {reason}")
    built = probe.python is not None
    yield Finding(
        "sandbox python",
        "ok" if built else "warn",
        probe.python or "not built",
        "" if built else "Run `deerflow sandbox build`.",
    )


def _told(probe: ProbeReport) -> list[tuple[str, Any]]:
    """Features by name; weaknesses have lines of their own."""
    return [(n, v) for n, v in sorted(probe.features.items()) if n != "weaknesses"]


def _level(probe: ProbeReport) -> str:
    words = [_feature(name, value) for name, value in _told(probe)]
    return f"{probe.level} ({', '.join(filter(None, words))})" if words else probe.level


def _feature(name: str, value: Any) -> str:
    """A feature in words; an empty list of weaknesses, say, is nothing to tell."""
    label = name.replace("_", " ")
    if isinstance(value, bool):
        return label if value else f"no {label}"
    if isinstance(value, (list, tuple)):
        return f"{label}: {'; '.join(map(str, value))}" if value else ""  # pyright: ignore[reportUnknownArgumentType]
    return f"{label} {value}"


async def _model(loaded: LoadedConfig, environ: Mapping[str, str]) -> AsyncIterator[Finding]:
    """The model that a run would take; it is built, not called."""
    models, found = await models_of(loaded, environ)
    parts = lead_parts(loaded, models, environ=environ)
    catalog = parts.catalog
    try:
        spec = catalog.spec(catalog.default)
        model = await asyncio.to_thread(catalog.get, spec.name)
        inner: object = getattr(model, "inner", model)
        if isinstance(inner, _FromFile) and not inner.repo:  # a doctor fetches nothing
            await inner.prepare()
    finally:
        await parts.catalog.aclose()
    more = [name for name in catalog.names() if name != spec.name]
    text = f"{spec.name} ({spec.provider}: {spec.model})"
    yield Finding("model", "ok", f"{text}, also {', '.join(more)}" if more else text)
    if found:
        yield Finding("model", "ok", found)


def _print(findings: list[Finding], as_json: bool) -> None:
    if as_json:
        output.write_line(orjson.dumps([asdict(finding) for finding in findings]))
        return
    for finding in findings:
        output.say(f"{_SIGNS[finding.mark]} {finding.name}: {finding.text}")
        if finding.cure:
            output.say(f"    {finding.cure}")
