"""`deerflow memory`: show, search and change what is remembered of you."""

from __future__ import annotations

import typer

app = typer.Typer(help="Show, search and change what is remembered of you.", no_args_is_help=True)
