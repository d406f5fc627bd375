"""The `deerflow` command: parses arguments; each command's work is imported when it is chosen."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from deerflow import __version__
from deerflow.cli import approvals as approval_commands
from deerflow.cli import config as config_commands
from deerflow.cli import exam as exam_commands
from deerflow.cli import memory as memory_commands
from deerflow.cli import models as model_commands
from deerflow.cli import output
from deerflow.cli import sandbox as sandbox_commands
from deerflow.cli.exits import finish, guarded
from deerflow.errors import UsageError
from deerflow.runtime.request import RunRequest

app = typer.Typer(
    name="deerflow",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain text starts quickly and reads the same everywhere
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
threads = typer.Typer(help="List, show and delete conversations.", no_args_is_help=True)
app.add_typer(threads, name="threads")
app.add_typer(config_commands.app, name="config")
app.add_typer(model_commands.app, name="models")
app.add_typer(sandbox_commands.app, name="sandbox")
app.add_typer(approval_commands.app, name="approvals")
app.add_typer(memory_commands.app, name="memory")
app.add_typer(exam_commands.app, name="exam")

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Configuration file.", show_default=False),
]
VerifyOption = Annotated[
    bool | None,
    typer.Option("--verify/--no-verify", help="Have somebody else derive the answer as well."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]
ThreadArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the thread.")]


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """A self-hosted super agent harness: a task in, an artifact out."""
    if version:
        typer.echo(f"deerflow {__version__}")
        raise typer.Exit


@app.command()
def run(  # noqa: PLR0913  (one parameter per option)
    task: Annotated[
        str, typer.Argument(metavar="TASK", help="What to do; - reads it from standard input.")
    ] = "",
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each event as one JSON line as it happens.")
    ] = False,
    thread: Annotated[
        str | None,
        typer.Option("--thread", metavar="ID", help="Thread to continue, or the id of a new one."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the thread's unfinished run.")
    ] = False,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="Configured model to use.")
    ] = None,
    config: ConfigOption = None,
    upload: Annotated[
        list[Path] | None,
        typer.Option(
            "--upload", metavar="FILE", help="File to hand over; repeatable.", readable=False
        ),
    ] = None,
    expect: Annotated[
        list[str] | None,
        typer.Option(
            "--expect", metavar="FILE", help="File that must be in outputs at the end; repeatable."
        ),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Plan first, then work it off.")] = False,
    max_turns: Annotated[
        int | None,
        typer.Option("--max-turns", metavar="N", min=1, max=2**31, help="Model turns at most."),
    ] = None,
    goal: Annotated[
        str | None,
        typer.Option("--goal", metavar="TEXT", help="Objective to pursue until it is reached."),
    ] = None,
    verify: VerifyOption = None,
    agent: Annotated[
        str, typer.Option("--agent", metavar="NAME", help="Custom agent that leads.")
    ] = "",
    memory_wait: Annotated[
        bool,
        typer.Option(
            "--memory-wait/--no-memory-wait",
            help="At the end, wait until the conversation is taken into the memory.",
        ),
    ] = True,
) -> None:
    """Hand a task to the lead agent and wait for the result.

    Exit codes: 0 answered; 1 failed, empty or a deliverable is missing; 2 bad usage or
    configuration; 3 waiting for a human; 4 a limit or timeout was reached; 130 stopped.
    """

    def work() -> int:
        gc.disable()  # collecting while 1,500 modules are loaded costs a tenth of the start
        from deerflow.cli.run import RunOptions, run  # noqa: PLC0415  (--help stays quick)

        gc.freeze()
        gc.enable()
        request = RunRequest(
            task=_from_stdin() if task == "-" else _text("TASK", task),
            thread_id=None if thread is None else _text("--thread", thread),
            model=model,
            uploads=tuple(upload or ()),
            expect=tuple(_text("--expect", name) for name in expect or ()),
            plan=plan,
            max_turns=max_turns,
            resume=resume,
            goal=None if goal is None else _text("--goal", goal),
            agent_name=_text("--agent", agent),
            verify=verify,
        )
        return run(RunOptions(request, config, as_json, memory_wait))

    finish(work)


@threads.command("list")
def list_threads(
    *,
    as_json: JsonOption = False,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Rows at most.")] = 50,
    config: ConfigOption = None,
) -> None:
    """List threads, newest first."""
    from deerflow.cli.threads import show_list  # noqa: PLC0415  (start of --help stays quick)

    finish(lambda: show_list(config, limit, as_json))


@threads.command("show")
def show_thread(
    thread_id: ThreadArgument,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the events.")] = False,
    config: ConfigOption = None,
) -> None:
    """Print a conversation with its tools and files."""
    from deerflow.cli.threads import show_one  # noqa: PLC0415  (start of --help stays quick)

    finish(lambda: show_one(config, _text("ID", thread_id), as_json))


@threads.command("delete")
def delete_thread(thread_id: ThreadArgument, *, config: ConfigOption = None) -> None:
    """Remove a thread with its history, checkpoints and files."""
    from deerflow.cli.threads import delete_one  # noqa: PLC0415  (start of --help stays quick)

    finish(lambda: delete_one(config, _text("ID", thread_id)))


@app.command()
def doctor(*, as_json: JsonOption = False, config: ConfigOption = None) -> None:
    """Say what this machine gives, what is missing, and the cure.

    Exit codes: 0 a run can start; 1 it cannot; 2 the configuration is broken.
    """
    from deerflow.cli.doctor import examine  # noqa: PLC0415  (start of --help stays quick)

    finish(lambda: examine(config, as_json))


def _text(name: str, argument: str) -> str:
    text = output.text_of(argument)
    if text is None:
        raise UsageError(f"{name} is not UTF-8 text.")
    return text


def _from_stdin() -> str:
    data = b"" if sys.stdin is None else sys.stdin.buffer.read()  # pyright: ignore[reportUnnecessaryComparison]  # closed
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError("The task on standard input is not UTF-8 text.") from None


def main() -> NoReturn:
    """Entry point; errors of the product become one message and an exit code."""
    output.prepare()
    sys.exit(guarded(lambda: int(app(prog_name="deerflow") or 0)))
