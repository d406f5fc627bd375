"""`deerflow sandbox build|status`: the Python that the agent finds, and the isolation around it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from deerflow.config.load import LoadedConfig, load_config, read_environ
from deerflow.sandbox.python import build as build_python
from deerflow.sandbox.python import describe, python_folder

app = typer.Typer(no_args_is_help=True, help="The agent's sandbox: its Python, its isolation.")

ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="Configuration file.", show_default=False)
]


@app.command()
def build(
    *,
    again: Annotated[bool, typer.Option("--again", help="Build even when up to date.")] = False,
    config: ConfigOption = None,
) -> None:
    """Build the sandbox's own Python with the packages of `sandbox.python.packages`."""
    loaded, _ = _load(config)
    asyncio.run(
        build_python(
            python_folder(loaded.home),
            loaded.config.sandbox.python.packages,
            say=_say,
            again=again,
        )
    )


@app.command()
def status(*, config: ConfigOption = None) -> None:
    """What isolates the agent here, what was passed over and why, and the sandbox's Python."""
    loaded, environ = _load(config)
    for line in asyncio.run(_status(loaded, environ)):
        typer.echo(line)


async def _status(loaded: LoadedConfig, environ: dict[str, str]) -> list[str]:
    from deerflow.wiring.harness import open_harness  # noqa: PLC0415  (--help stays quick)

    async with open_harness(loaded, environ) as harness:
        report = await harness.provider.probe()
    lines = [f"isolation: {report.level}"]
    lines += [f"  passed over: {reason}" for reason in report.reasons]
    lines += [f"  {name}: {value}" for name, value in sorted(report.features.items())]
    python = describe(python_folder(loaded.home))
    lines.append(f"python: {python or 'not built; run `deerflow sandbox build`'}")
    return lines


def _load(config: Path | None) -> tuple[LoadedConfig, dict[str, str]]:
    cwd = Path.cwd()
    environ = read_environ(cwd=cwd, config=config)
    return load_config(config, environ=environ, cwd=cwd), environ


def _say(line: str) -> None:
    typer.echo(line, err=True)
