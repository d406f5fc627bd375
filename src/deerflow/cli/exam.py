"""`deerflow exam`: sit exams, grade what was answered, compare arms."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from deerflow.cli import frameworks
from deerflow.cli.exits import finish

app = typer.Typer(help="Sit exams, grade answers, compare ways of answering.", no_args_is_help=True)
app.add_typer(frameworks.app, name="frameworks")


MOST = 10**15
"""Numbers that every part can write down."""


class JudgeName(StrEnum):
    """Who grades answers in words."""

    rubric = "rubric"
    llm = "llm"


Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Configuration file.", show_default=False),
]
DatasetOption = Annotated[
    Path | None,
    typer.Option(
        "--dataset",
        metavar="FILE",
        help="JSON file of questions with their keys.",
        show_default="our own",
    ),
]
JudgeOption = Annotated[
    JudgeName,
    typer.Option("--judge", help="Who grades short answers: keywords of the rubric, or a model."),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model", metavar="NAME", help="Configured model that judges.", show_default=False
    ),
]
ReportDir = Annotated[
    Path | None,
    typer.Option(
        "--report-dir", metavar="DIR", help="Write the report there, as Markdown and as a page."
    ),
]


@app.command()
def run(  # noqa: PLR0913  (one parameter per option)
    *,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="DIR", help="Folder of journal, results and report."),
    ],
    dataset: Annotated[
        Path | None,
        typer.Option(
            "--dataset", metavar="FILE", help="JSON file of questions.", show_default="our own"
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="NAME", help="Model that answers.", show_default="default"),
    ] = None,
    validator_model: Annotated[
        str | None,
        typer.Option(
            "--validator-model",
            metavar="NAME",
            help="Model that validates.",
            show_default="the same",
        ),
    ] = None,
    arm: Annotated[
        str,
        typer.Option("--arm", metavar="ARM", help="A0 … A6; R1, R2 show the key (a bound)."),
    ] = "A5",
    repeat: Annotated[
        int, typer.Option("--repeat", metavar="N", min=1, max=99, help="Answers per question.")
    ] = 1,
    workers: Annotated[
        int, typer.Option("--workers", metavar="N", min=1, max=64, help="Questions at once.")
    ] = 4,
    budget: Annotated[
        int,
        typer.Option(
            "--budget", metavar="TOKENS", min=0, max=MOST, help="Tokens in all; 0: no limit."
        ),
    ] = 0,
    seed: Annotated[
        int,
        typer.Option("--seed", metavar="N", min=-MOST, max=MOST, help="Of all that is drawn."),
    ] = 0,
    limit: Annotated[
        int,
        typer.Option("--limit", metavar="N", min=0, max=MOST, help="So many questions; 0: all."),
    ] = 0,
    memory: Annotated[
        bool, typer.Option("--memory", help="Use and keep lessons of earlier exams.")
    ] = False,
    config: Config = None,
) -> None:
    """Sit an exam; the same command goes on after a kill.

    Exit codes: 0 every question has a status; 1 it failed; 2 bad usage; 130 stopped.
    """
    from deerflow.cli.examining import ExamOptions, run_exam  # noqa: PLC0415  (see grade)
    from deerflow.exam.dataset import OWN  # noqa: PLC0415
    from deerflow.exam.sitting import ExamPlan  # noqa: PLC0415

    plan = ExamPlan(dataset or OWN, out, "", "", arm, repeat, workers, budget, seed, limit)
    finish(lambda: run_exam(ExamOptions(plan, config, model, validator_model, memory)))


@app.command()
def grade(  # noqa: PLR0913  (one parameter per option)
    *,
    result: Annotated[Path, typer.Option("--result", metavar="FILE", help="Result file.")],
    dataset: DatasetOption = None,
    judge: JudgeOption = JudgeName.rubric,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Print the strict score too; refuse unknown and repeated ids; with a model as "
            "judge, ask it again with the answer delimited.",
        ),
    ] = False,
    report_dir: ReportDir = None,
    model: ModelOption = None,
    config: Config = None,
) -> None:
    """Grade a result file as the public benchmark does, and strictly beside it.

    Exit codes: 0 graded; 1 the judge failed; 2 a file cannot be used.
    """
    from deerflow.cli.grading import Judging, grade_one  # noqa: PLC0415  (--help stays quick)
    from deerflow.exam.dataset import OWN  # noqa: PLC0415

    judging = Judging(judge is JudgeName.llm, model, config)
    finish(lambda: grade_one(result, dataset or OWN, judging, strict=strict, report_dir=report_dir))


@app.command()
def compare(  # noqa: PLR0913  (one parameter per option)
    places: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Folders of exams, or result files; one for an arm."),
    ],
    *,
    dataset: DatasetOption = None,
    judge: JudgeOption = JudgeName.rubric,
    report_dir: ReportDir = None,
    seed: Annotated[
        int,
        typer.Option(
            "--seed",
            metavar="N",
            min=-(10**15),
            max=10**15,
            help="Of the resampling behind intervals.",
        ),
    ] = 0,
    model: ModelOption = None,
    config: Config = None,
) -> None:
    """Compare arms on the same questions: scores, intervals, paired tests, flips, cost.

    Exit codes: 0 compared; 1 the judge failed; 2 a file cannot be used.
    """
    from deerflow.cli.grading import Judging, compare_all  # noqa: PLC0415  (--help stays quick)
    from deerflow.exam.dataset import OWN  # noqa: PLC0415

    judging = Judging(judge is JudgeName.llm, model, config)
    finish(lambda: compare_all(places, dataset or OWN, judging, report_dir=report_dir, seed=seed))


@app.command()
def simulate(
    *,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of arms and report.")],
    questions: Annotated[
        int, typer.Option("--questions", metavar="N", min=8, max=4_000, help="Of the exam.")
    ] = 128,
    repeat: Annotated[
        int, typer.Option("--repeat", metavar="N", min=1, max=99, help="Answers per question.")
    ] = 5,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=-MOST, max=MOST, help="Of all luck.")
    ] = 0,
) -> None:
    """Sit every arm with scripted roles that err at known rates: what does each arm add?

    Exit codes: 0 simulated; 2 the folder holds another simulation.
    """
    from deerflow.cli.grading import simulate_all  # noqa: PLC0415  (--help stays quick)

    finish(lambda: simulate_all(out, questions=questions, repeat=repeat, seed=seed))
