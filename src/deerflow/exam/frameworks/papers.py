"""What programs are given: the questions as roles may see them, with the instructions of ours."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from deerflow.exam.arms import ARMS
from deerflow.exam.dataset import Dataset, Question, problem_of
from deerflow.exam.frameworks.code import code_lines
from deerflow.exam.frameworks.registry import SHARED, Framework
from deerflow.exam.guidance import Guidance
from deerflow.exam.journal import digest
from deerflow.verify import prompts

ARM = "A2"
"""The arm that all programs build: a validator looks at each answer, sends wrong ones back."""


@dataclass(frozen=True, slots=True)
class Slip:
    """One question on a paper: neither key, rubric, notes nor source has a place in it.

    Attributes:
        id, subject, type: of the question, as results name them.
        kind: "letter" or "text".
        text: the question with its options.
        resolver, validator: the instructions of the roles, word for word those of ours.
    """

    id: str
    subject: str
    type: str
    kind: str
    text: str
    resolver: str
    validator: str


def paper_of(dataset: Dataset, framework: Framework) -> dict[str, Any]:
    """The JSON of a paper: its slips, and what results are to say of the exam."""
    guidance = Guidance()
    slips = [_slip(question, guidance) for question in dataset.questions]
    config = {
        "arm": ARM,
        "leaky": False,
        "enable_validator": ARMS[ARM].policy.validate,
        "dataset_sha256": dataset.sha256,
        "lines_of_code": code_lines(framework.program),
        "shared_lines": code_lines(SHARED),
        "prompts_sha256": digest(
            *(text for slip in slips for text in (slip.text, slip.resolver, slip.validator))
        ),
    }
    return {"config": config, "questions": [asdict(slip) for slip in slips]}


def _slip(question: Question, guidance: Guidance) -> Slip:
    problem = problem_of(question)
    return Slip(
        id=question.id,
        subject=question.subject,
        type=question.type,
        kind=problem.kind,
        text=prompts.question(problem),
        resolver=prompts.system("resolver", problem, guidance(problem, "resolver")),
        validator=prompts.system("validator", problem, guidance(problem, "validator"), review=True),
    )
