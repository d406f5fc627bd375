"""`deerflow doctor`: what this machine gives and what is missing, each line with its cure."""

from __future__ import annotations

import platform
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import orjson

from deerflow import __version__
from deerflow.cli.exits import ANSWERED, BAD_USAGE, FAILED
from deerflow.config.load import LoadedConfig, load_config, read_environ
from deerflow.errors import ConfigError, DeerFlowError
from deerflow.wiring import open_harness

Mark = Literal["ok", "warn", "fail"]
_SIGNS = {"ok": "✓", "warn": "!", "fail": "✗"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report: name, verdict, what was found, what to do."""

    name: str
    mark: Mark
    text: str
    cure: str = ""


async def examine(config: Path | None, as_json: bool) -> int:
    """Print the report. Exit code 0 when a run can start, 1 when not, 2 when the configuration is broken."""
    findings = [Finding("deerflow", "ok", f"{__version__} on Python {platform.python_version()}")]
    code = ANSWERED
    try:
        cwd = Path.cwd()
        environ = read_environ(cwd=cwd, config=config)
        loaded = load_config(config, environ=environ, cwd=cwd)
        findings += _configuration(loaded)
        findings += await _parts(loaded, environ)
    except ConfigError as error:
        findings += [
            Finding("configuration", "fail", problem, error.cure) for problem in error.problems
        ]
        code = BAD_USAGE
    except DeerFlowError as error:
        findings.append(Finding(error.code, "fail", error.message, error.cure))
    if code == ANSWERED and any(finding.mark == "fail" for finding in findings):
        code = FAILED
    _print(findings, as_json)
    return code


def _configuration(loaded: LoadedConfig) -> list[Finding]:
    where = str(loaded.path) if loaded.path else "embedded defaults (no config.yaml)"
    lines = [Finding("configuration", "ok", where)]
    lines += [Finding("configuration", "warn", warning) for warning in loaded.warnings]
    lines.append(Finding("home", "ok", str(loaded.home)))
    return lines


async def _parts(loaded: LoadedConfig, environ: dict[str, str]) -> list[Finding]:
    async with open_harness(loaded, environ) as harness:
        storage = Finding("storage", "ok", f"{harness.storage.kind}, writable")
        probe = await harness.provider.probe()
        isolated = probe.level in ("bwrap", "landlock")
        features = ", ".join(f"{key} {value}" for key, value in sorted(probe.features.items()))
        sandbox = Finding(
            "sandbox",
            "ok" if isolated else "warn",
            f"{probe.level} ({features})" if features else probe.level,
            "" if isolated else "Commands are not isolated: set sandbox.use to local.",
        )
        passed = [Finding("sandbox", "warn", reason) for reason in probe.reasons]
        python = Finding(
            "sandbox python",
            "ok" if probe.python else "warn",
            probe.python or "not built",
            "" if probe.python else "Run `deerflow sandbox build`.",
        )
        spec = harness.catalog.spec(harness.catalog.default)
        model = Finding(
            "model", "ok", f"{spec.name} ({spec.provider}: {spec.model})", harness.found
        )
    return [storage, sandbox, *passed, python, model]


def _print(findings: list[Finding], as_json: bool) -> None:
    if as_json:
        sys.stdout.write(orjson.dumps([asdict(f) for f in findings]).decode() + "\n")
        return
    for finding in findings:
        print(f"{_SIGNS[finding.mark]} {finding.name}: {finding.text}")
        if finding.cure:
            print(f"    {finding.cure}")
