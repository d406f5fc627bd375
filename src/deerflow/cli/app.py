"""The `deerflow` command: parses arguments; each command's work is in its own file, imported when it is chosen."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from deerflow import __version__
from deerflow.cli import config as config_commands
from deerflow.cli import models as model_commands
from deerflow.cli import sandbox as sandbox_commands
from deerflow.cli.exits import BAD_USAGE, fail
from deerflow.errors import DeerFlowError

app = typer.Typer(
    name="deerflow",
    help="A self-hosted super agent harness: a task in, an artifact out.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
threads = typer.Typer(help="Conversations of this home.", no_args_is_help=True)
app.add_typer(threads, name="threads")
app.add_typer(config_commands.app, name="config")
app.add_typer(model_commands.app, name="models")
app.add_typer(sandbox_commands.app, name="sandbox")

ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="Configuration file.", show_default=False)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """A self-hosted super agent harness: a task in, an artifact out."""
    if version:
        typer.echo(f"deerflow {__version__}")
        raise typer.Exit


@app.command()
def run(
    task: Annotated[str, typer.Argument(help="What to do; - reads it from standard input.")] = "",
    *,
    as_json: JsonOption = False,
    thread: Annotated[
        str | None,
        typer.Option("--thread", help="Continue this thread, or start it under this id."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the thread's unfinished run.")
    ] = False,
    model: Annotated[str | None, typer.Option("--model", help="Configured model to use.")] = None,
    config: ConfigOption = None,
    upload: Annotated[
        list[Path] | None, typer.Option("--upload", help="File to hand over; repeatable.")
    ] = None,
    expect: Annotated[
        list[str] | None,
        typer.Option("--expect", help="File that must be in outputs at the end; repeatable."),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Plan first, then work the plan off.")
    ] = False,
    max_turns: Annotated[
        int | None, typer.Option("--max-turns", min=1, help="Model turns at most.")
    ] = None,
) -> None:
    """Hand a task to the lead agent and wait for the result.

    Exit codes: 0 answered; 1 failed, empty or a deliverable is missing; 2 bad usage or configuration; 3 waiting for a
    human; 4 a limit or timeout was reached; 130 stopped.
    """
    from deerflow.cli.run import RunOptions, run_task  # noqa: PLC0415  (start of --help stays quick)

    options = RunOptions(
        task=sys.stdin.read() if task == "-" else task,
        as_json=as_json,
        thread=thread,
        resume=resume,
        model=model,
        config=config,
        uploads=tuple(upload or ()),
        expect=tuple(expect or ()),
        plan=plan,
        max_turns=max_turns,
    )
    raise typer.Exit(asyncio.run(run_task(options)))


@threads.command("list")
def list_threads(
    *,
    as_json: JsonOption = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Rows at most.")] = 50,
    config: ConfigOption = None,
) -> None:
    """Threads, newest first."""
    from deerflow.cli.threads import show_list  # noqa: PLC0415  (start of --help stays quick)

    raise typer.Exit(asyncio.run(show_list(config, limit, as_json)))


@threads.command("show")
def show_thread(
    thread_id: Annotated[str, typer.Argument(help="Id of the thread.")],
    *,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """The conversation of a thread, with its runs and files; --json prints its events."""
    from deerflow.cli.threads import show_one  # noqa: PLC0415  (start of --help stays quick)

    raise typer.Exit(asyncio.run(show_one(config, thread_id, as_json)))


@threads.command("delete")
def delete_thread(
    thread_id: Annotated[str, typer.Argument(help="Id of the thread.")],
    *,
    config: ConfigOption = None,
) -> None:
    """Remove a thread with its history, checkpoints and files."""
    from deerflow.cli.threads import delete_one  # noqa: PLC0415  (start of --help stays quick)

    raise typer.Exit(asyncio.run(delete_one(config, thread_id)))


@app.command()
def doctor(*, as_json: JsonOption = False, config: ConfigOption = None) -> None:
    """What this machine gives: isolation, model, storage, the sandbox's Python; with cures."""
    from deerflow.cli.doctor import examine  # noqa: PLC0415  (start of --help stays quick)

    raise typer.Exit(asyncio.run(examine(config, as_json)))


def main() -> None:
    """Entry point: errors of the product become one message and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        app()
    except DeerFlowError as error:
        sys.exit(fail(error))
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(BAD_USAGE)
