"""`deerflow models pull|list`: fetches model files, and says which models there are."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from deerflow.cli.exits import fail
from deerflow.config.load import LoadedConfig, load_config, read_environ
from deerflow.config.schema import ModelConfig
from deerflow.errors import DeerFlowError

app = typer.Typer(no_args_is_help=True, help="Fetch and list models.")

Option = Annotated[
    Path | None, typer.Option("--config", help="Configuration file.", show_default=False)
]


@app.command()
def pull(config: Option = None) -> None:
    """Fetch the embedded model, and every configured one that comes from a hub.

    Files that are whole stay as they are; damaged ones are replaced. Exit 1 when one cannot be
    fetched, 2 when the configuration is broken.
    """
    try:
        loaded = _load(config)
        asyncio.run(_pull(loaded))
    except DeerFlowError as error:
        raise typer.Exit(fail(error)) from error


@app.command("list")
def show(config: Option = None) -> None:
    """Print the models that a run can take, the default first."""
    try:
        loaded = _load(config)
        models, line = asyncio.run(_models(loaded, config))
    except DeerFlowError as error:
        raise typer.Exit(fail(error)) from error
    for model in models:
        typer.echo(f"{model.name}\t{model.model or model.use}")
    if line:
        typer.echo(line, err=True)


def _load(config: Path | None) -> LoadedConfig:
    cwd = Path.cwd()
    return load_config(config, environ=read_environ(cwd=cwd, config=config), cwd=cwd)


async def _pull(loaded: LoadedConfig) -> None:
    from deerflow.models.gguf import pull_bundled  # noqa: PLC0415  (start of --help stays quick)

    await pull_bundled(loaded.home, progress=_progress)
    for model in loaded.config.models:
        if model.extra.get("repo"):
            await _pull_from_hub(model, loaded.home)


async def _pull_from_hub(model: ModelConfig, home: Path) -> None:
    from deerflow.models.hub import HubFile, pull  # noqa: PLC0415  (start of --help stays quick)

    names = ("repo", "file", "revision", "endpoint", "sha256")
    given = {name: str(model.extra[name]) for name in names if model.extra.get(name)}
    if "file" in given:
        await pull(HubFile(**given), home, progress=_progress)
        _progress(f"{given['file']} is in place.")


async def _models(loaded: LoadedConfig, config: Path | None) -> tuple[tuple[ModelConfig, ...], str]:
    from deerflow.models.discover import discover  # noqa: PLC0415  (start of --help stays quick)

    if loaded.config.models:
        return tuple(loaded.config.models), ""
    found = await discover(read_environ(cwd=loaded.cwd, config=config), loaded.home)
    return found.models, found.line


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
