"""`deerflow memory`: show, search and change what is remembered of you."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deerflow.cli.exits import finish

app = typer.Typer(help="Show, search and change what is remembered of you.", no_args_is_help=True)

Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Configuration file.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]


@app.command()
def show(
    *,
    past: Annotated[bool, typer.Option("--all", help="Also facts that were replaced.")] = False,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Print summaries and facts, each fact with its id and where it came from."""
    from deerflow.cli.recall import show_all  # noqa: PLC0415  (start of --help stays quick)

    finish(lambda: show_all(config, past=past, as_json=as_json))


@app.command()
def search(
    query: Annotated[str, typer.Argument(metavar="WORDS", help="What to look for.")],
    *,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Facts at most.")] = 15,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Print the facts that share words, the most relevant first."""
    from deerflow.cli.recall import show_found  # noqa: PLC0415  (start of --help stays quick)

    finish(lambda: show_found(config, query, limit, as_json=as_json))


@app.command()
def forget(
    ident: Annotated[str, typer.Argument(metavar="ID", help="Id of the fact, or its beginning.")],
    *,
    config: Config = None,
) -> None:
    """Remove a fact; `undo` brings it back."""
    from deerflow.cli.recall import forget_one  # noqa: PLC0415  (start of --help stays quick)

    finish(lambda: forget_one(config, ident))


@app.command()
def undo(*, config: Config = None) -> None:
    """Take the newest change back; again for the one before it."""
    from deerflow.cli.recall import undo_one  # noqa: PLC0415  (start of --help stays quick)

    finish(lambda: undo_one(config))


@app.command("export")
def export_file(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Where to; standard output without it."),
    ] = None,
    *,
    config: Config = None,
) -> None:
    """Write the memory as JSON, in the shape of a 2.x memory.json."""
    from deerflow.cli.recall import export_to  # noqa: PLC0415  (start of --help stays quick)

    finish(lambda: export_to(config, file))


@app.command("import")
def import_file(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A memory.json; - reads standard input.")
    ],
    *,
    config: Config = None,
) -> None:
    """Take another memory in beside what is there; what cannot be right is left out and named."""
    from deerflow.cli.recall import import_from  # noqa: PLC0415  (start of --help stays quick)

    finish(lambda: import_from(config, file))
