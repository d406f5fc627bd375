"""`deerflow exam frameworks`: the exam in other frameworks, each in its own environment."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any

import typer

from deerflow.cli import output
from deerflow.cli.exits import ANSWERED, FAILED, STOPPED, finish

app = typer.Typer(
    help="Sit the same exam in other agent frameworks, to compare them.", no_args_is_help=True
)

NAMES = "langgraph, openai-agents, google-adk, crewai, or all."

Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Configuration file.", show_default=False),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help=NAMES)]


@app.command("list")
def list_frameworks(*, config: Config = None) -> None:
    """Which frameworks there are, how each is built, its lines of code, what is installed."""
    finish(lambda: _list(config))


@app.command()
def install(name: Name, *, config: Config = None) -> None:
    """Make a framework's environment below DEER_FLOW_HOME, from pinned packages of PyPI.

    Exit codes: 0 installed; 1 a package cannot be had; 2 bad usage; 130 stopped.
    """
    finish(lambda: _guarded(_install(name, config)))


@app.command()
def run(  # noqa: PLR0913  (one parameter per option)
    name: Name,
    *,
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="DIR", help="Folder of the results; for all, one in it each."
        ),
    ],
    base_url: Annotated[
        str, typer.Option("--base-url", metavar="URL", help="OpenAI-compatible endpoint.")
    ],
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="Model at the endpoint.")],
    dataset: Annotated[
        Path | None,
        typer.Option(
            "--dataset", metavar="FILE", help="JSON file of questions.", show_default="our own"
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option("--workers", metavar="N", min=1, max=64, help="Questions at once.")
    ] = 1,
    key_env: Annotated[
        str,
        typer.Option("--key-env", metavar="VARIABLE", help="Environment variable of the key."),
    ] = "OPENAI_API_KEY",
    config: Config = None,
) -> None:
    """Sit an exam in a framework: the same roles, questions and instructions as arm A2 of ours.

    Exit codes: 0 every question has a status; 1 a program failed; 2 bad usage; 130 stopped.
    """
    from deerflow.cli.seating import Wanted, run_all  # noqa: PLC0415  (--help stays quick)

    wanted = Wanted(name, out, base_url, model, dataset, workers, key_env, config)
    finish(lambda: _guarded(run_all(wanted)))


def _guarded(work: Coroutine[Any, Any, int]) -> int:
    """The exit code of some work that a signal may stop, with all that it has started."""
    from deerflow.cli.stop import Stop  # noqa: PLC0415  (--help stays quick)

    async def listening() -> int:
        Stop().listen()
        try:
            return await work
        except asyncio.CancelledError:
            output.note("Stopped.")
            return STOPPED

    return asyncio.run(listening())


def _list(config: Path | None) -> int:
    from deerflow.cli.source import read  # noqa: PLC0415  (--help stays quick)
    from deerflow.exam.frameworks.code import code_lines  # noqa: PLC0415
    from deerflow.exam.frameworks.environments import environment  # noqa: PLC0415
    from deerflow.exam.frameworks.registry import FRAMEWORKS  # noqa: PLC0415

    loaded, _ = read(config)
    for each in FRAMEWORKS.values():
        state = "installed" if environment(each, loaded.home).installed() else "not installed"
        lines = code_lines(each.program)
        output.say(f"{each.name}: {each.title}, {each.way}; {lines} lines of code; {state}")
    return ANSWERED


async def _install(name: str, config: Path | None) -> int:
    from deerflow.cli.exits import fail  # noqa: PLC0415  (--help stays quick)
    from deerflow.cli.source import read  # noqa: PLC0415
    from deerflow.errors import SandboxError  # noqa: PLC0415
    from deerflow.exam.frameworks.environments import environment  # noqa: PLC0415
    from deerflow.exam.frameworks.registry import chosen  # noqa: PLC0415

    loaded, environ = read(config)
    code = ANSWERED
    for framework in chosen(name):
        there = environment(framework, loaded.home)
        if there.installed():
            output.say(f"{framework.name}: installed already")
            continue
        output.note(f"{framework.name}: installing …")
        try:
            await there.install(environ)
        except SandboxError as error:  # the others are installed all the same
            fail(error)
            code = FAILED
            continue
        output.say(f"{framework.name}: installed in {there.folder}")
    return code
