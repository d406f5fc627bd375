"""`deerflow exam frameworks run`: seats frameworks one after the other and says how they ended."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deerflow.cli import output
from deerflow.cli.exits import ANSWERED, FAILED, fail
from deerflow.cli.source import read
from deerflow.errors import SandboxError, UsageError
from deerflow.exam.contract import ResultFile
from deerflow.exam.dataset import OWN, Dataset, load_dataset
from deerflow.exam.frameworks.environments import environment
from deerflow.exam.frameworks.registry import ALL, Framework, chosen
from deerflow.exam.frameworks.running import RESULTS, Endpoint, Seat, sit_elsewhere


@dataclass(frozen=True, slots=True)
class Wanted:
    """The command line.

    Attributes:
        name: of a framework, or "all".
        out: folder of results; of folders of results for "all".
        base_url: of the endpoint.
        model: name of the model there.
        dataset: of questions, None for our own.
        workers: questions at once.
        key_env: environment variable that holds the key.
        config: configuration file, None for the usual places.
    """

    name: str
    out: Path
    base_url: str
    model: str
    dataset: Path | None = None
    workers: int = 1
    key_env: str = "OPENAI_API_KEY"
    config: Path | None = None


async def run_all(wanted: Wanted) -> int:
    """Seat what is wanted; gives the exit code. A framework that fails does not keep others back.

    Raises:
        DeerFlowError: settings or dataset cannot be used, or a framework is not installed.
    """
    if not wanted.base_url.startswith(("http://", "https://")):
        raise UsageError(f"{wanted.base_url!r} is no URL.", cure="Give http://HOST:PORT/v1.")
    loaded, environ = read(wanted.config)
    frameworks = chosen(wanted.name)
    for framework in frameworks:
        environment(framework, loaded.home).check()
    questions = await asyncio.to_thread(load_dataset, wanted.dataset or OWN)
    code = ANSWERED
    for framework in frameworks:
        try:
            await _run(framework, wanted, questions, loaded.home, environ)
        except SandboxError as error:
            fail(error)
            code = FAILED
    return code


async def _run(
    framework: Framework,
    wanted: Wanted,
    questions: Dataset,
    home: Path,
    environ: Mapping[str, str],
) -> None:
    out = wanted.out / framework.name if wanted.name == ALL else wanted.out
    there = environment(framework, home)
    seat = Seat(there.python, there.home, environ, out.resolve())
    endpoint = Endpoint(wanted.base_url, wanted.model, environ.get(wanted.key_env, ""))

    def told(line: str) -> None:
        output.note(f"{framework.name} {line}")

    file = await sit_elsewhere(
        framework, seat, questions, endpoint, workers=wanted.workers, told=told
    )
    _tell(file, out / RESULTS)


def _tell(file: ResultFile, path: Path) -> None:
    states = Counter(str(answer.raw.get("state")) for answer in file.results)
    seconds = file.config["wall_ms"] / 1000
    output.say(
        f"{file.framework}: {states['accepted']} of {len(file.results)} answers accepted, "
        f"{seconds:.1f} s"
    )
    for state, count in states.most_common():
        if state != "accepted":
            output.say(f"  {state}: {count}")
    output.say(f"  {path}")
