"""`deerflow config check|show|sample`: what the configuration says, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deerflow.config.load import LoadedConfig, load_config, read_environ
from deerflow.config.sample import dump, sample
from deerflow.config.section import masked
from deerflow.errors import ConfigError

BAD_CONFIG = 2
"""Exit code for wrong usage or a wrong configuration."""

app = typer.Typer(no_args_is_help=True, help="Check, show or write the configuration.")

File = Annotated[
    Path | None,
    typer.Argument(help="The file; without it the usual look-up.", show_default=False),
]
Option = Annotated[Path | None, typer.Option("--config", help="Same as FILE.", show_default=False)]


@app.command()
def check(file: File = None, config: Option = None) -> None:
    """Report every problem; exit 2 when there is an error or an unknown key."""
    loaded = _load(config or file)
    for line in loaded.warnings:
        typer.echo(line, err=True)
    if loaded.unknown_keys:
        raise typer.Exit(BAD_CONFIG)
    typer.echo(f"{_source(loaded)}: ok")


@app.command()
def show(file: File = None, config: Option = None) -> None:
    """Print the configuration in force as YAML, secrets masked."""
    loaded = _load(config or file)
    settings = masked(loaded.config.model_dump(mode="json", by_alias=True))
    typer.echo(f"# from {_source(loaded)}")
    typer.echo(dump(settings), nl=False)
    if loaded.extensions_path is not None:
        extensions = masked(loaded.extensions.model_dump(mode="json", by_alias=True))
        typer.echo(f"--- # from {loaded.extensions_path}")
        typer.echo(dump(extensions), nl=False)


@app.command("sample")
def write_sample() -> None:
    """Print a file with every key, its meaning and its default."""
    typer.echo(sample(), nl=False)


def _load(file: Path | None) -> LoadedConfig:
    cwd = Path.cwd()
    try:
        return load_config(file, environ=read_environ(cwd=cwd, config=file), cwd=cwd)
    except ConfigError as error:
        for line in error.problems:
            typer.echo(line, err=True)
        raise typer.Exit(BAD_CONFIG) from None


def _source(loaded: LoadedConfig) -> str:
    return str(loaded.path) if loaded.path else "embedded defaults"
