"""`deerflow approvals`: list and decide tool calls that wait for you."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deerflow.cli.exits import finish

app = typer.Typer(help="List and decide tool calls that wait for you.", no_args_is_help=True)

Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Configuration file.", show_default=False),
]
Ident = Annotated[str, typer.Argument(metavar="ID", help="Id of the approval, or its beginning.")]
Run = Annotated[
    bool, typer.Option("--run/--no-run", help="Go on with the run at once, in the foreground.")
]


@app.command("list")
def list_approvals(
    *,
    everything: Annotated[bool, typer.Option("--all", help="Decided ones too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
    config: Config = None,
) -> None:
    """List calls that wait, oldest first."""
    from deerflow.cli.decide import show_list  # noqa: PLC0415  (start of --help stays quick)

    finish(lambda: show_list(config, everything=everything, as_json=as_json))


@app.command()
def approve(
    ident: Ident,
    *,
    args: Annotated[
        str | None,
        typer.Option("--args", metavar="JSON", help="All arguments, in place of the asked ones."),
    ] = None,
    run: Run = True,
    config: Config = None,
) -> None:
    """Let a call run, then go on with its run.

    Exit codes: those of `deerflow run`; 1 when it was decided otherwise before.
    """
    from deerflow.cli.decide import Choice, decide_one  # noqa: PLC0415  (start of --help)

    finish(lambda: decide_one(ident, Choice("approved", args=args), config, go_on=run))


@app.command()
def reject(
    ident: Ident,
    *,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="What the agent is told.")
    ] = "",
    run: Run = True,
    config: Config = None,
) -> None:
    """Refuse a call, then go on with its run.

    Exit codes: those of `deerflow run`; 1 when it was decided otherwise before.
    """
    from deerflow.cli.decide import Choice, decide_one  # noqa: PLC0415  (start of --help)

    finish(lambda: decide_one(ident, Choice("rejected", reason=reason), config, go_on=run))
