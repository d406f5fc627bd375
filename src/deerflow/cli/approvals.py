"""`deerflow approvals`: list and decide tool calls that wait for you."""

from __future__ import annotations

import typer

app = typer.Typer(help="List and decide tool calls that wait for you.", no_args_is_help=True)
