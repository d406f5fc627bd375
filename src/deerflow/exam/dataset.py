"""The questions of an exam: a JSON array, every entry checked before anything is asked."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from deerflow.errors import UsageError
from deerflow.verify.messages import Problem

Subject = Literal[
    "chinese", "math", "english", "physics", "chemistry", "biology", "history", "geography"
]
SUBJECTS: tuple[Subject, ...] = (
    "chinese",
    "math",
    "english",
    "physics",
    "chemistry",
    "biology",
    "history",
    "geography",
)
"""In the order in which reports list them."""

OWN = Path(__file__).parent / "data" / "deerflow-128.json"
"""The dataset that comes with DeerFlow."""

QuestionType = Literal["multiple_choice", "short_answer"]
Text = Annotated[str, Field(min_length=1, strict=True)]
Points = Annotated[int, Field(ge=1, strict=True)]
MOST_PROBLEMS = 10
"""Problems that one message lists; the rest is counted."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Criterion(_Part):
    """What an answer must hold, and the points for it."""

    criterion: Text
    points: Points


class Scoring(_Part):
    """How many points an answer can have; `rubric` is required when `method` is "rubric"."""

    max_points: Points
    method: Literal["exact", "rubric"]
    rubric: tuple[Criterion, ...] | None = None

    @model_validator(mode="after")
    def _sum(self) -> Self:
        if self.method == "rubric" and not self.rubric:
            raise ValueError('the method "rubric" needs criteria in scoring.rubric')
        if self.rubric is not None:
            points = sum(each.points for each in self.rubric)
            if self.method == "rubric" and points != self.max_points:
                raise ValueError(
                    f"the criteria are worth {points} points, max_points is {self.max_points}"
                )
        return self


class Question(_Part):
    """One entry of a dataset; `answer`, `scoring`, `notes` and `source` are for graders alone.

    Attributes:
        id: the subject, a hyphen, three digits.
        options: "A. text" and so on, for multiple choice.
        answer: the key: a letter, or a reference text.
        answer_type: which grader grades it.
        notes: for graders; `accept:` begins synonyms.
    """

    id: Annotated[str, Field(pattern=rf"^({'|'.join(SUBJECTS)})-[0-9]{{3}}$", strict=True)]
    subject: Subject
    type: QuestionType
    question: Text
    options: tuple[Text, ...] | None = Field(default=None, min_length=2)
    answer: Text
    answer_type: Literal["letter", "text"]
    scoring: Scoring
    source: Text
    difficulty: Literal["easy", "medium", "hard"]
    notes: Annotated[str, Field(strict=True)] = ""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.id.partition("-")[0] != self.subject:
            raise ValueError(f"the id begins with another subject than {self.subject!r}")
        if self.type == "multiple_choice" and self.options is None:
            raise ValueError("a multiple-choice question needs options")
        if self.type == "short_answer" and self.options is not None:
            raise ValueError("a short answer has no options")
        if self.answer_type == "letter":
            self._check_letter(self.options or ())
        return self

    def _check_letter(self, options: Sequence[str]) -> None:
        letters = [chr(ord("A") + place) for place in range(len(options))]
        if self.answer not in letters:
            known = f"{letters[0]} to {letters[-1]}" if letters else "none"
            raise ValueError(f"the key {self.answer!r} is no letter of an option ({known})")


@dataclass(frozen=True, slots=True)
class Dataset:
    """Questions in their order.

    Attributes:
        questions: with unique ids.
        sha256: of the file's bytes, as hex.
    """

    questions: tuple[Question, ...]
    sha256: str

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids in order."""
        return tuple(question.id for question in self.questions)

    def records(self) -> dict[str, dict[str, Any]]:
        """The questions as JSON objects by id, as the compatible graders take them."""
        return {
            question.id: question.model_dump(mode="json", exclude_none=True)
            for question in self.questions
        }


def load_dataset(path: Path) -> Dataset:
    """Read and check a dataset.

    Raises:
        UsageError: it cannot be read, is not UTF-8, not JSON, or holds a bad question; says where.
    """
    data = read(path, "dataset")
    document = parse(data, path)
    if not isinstance(document, list) or not document:
        raise UsageError(
            f"{path} is no dataset: it must be a JSON array with at least one question.",
            cure="Give the file of questions with --dataset.",
        )
    entries = cast("list[object]", document)
    questions: list[Question] = []
    problems: list[str] = []
    for place, entry in enumerate(entries):
        try:
            questions.append(Question.model_validate(entry))
        except ValidationError as error:
            problems += [f"{_named(place, entry)}: {text}" for text in told(error)]
    counts = Counter(question.id for question in questions)
    problems += [f"{name}: the id is used {n} times" for name, n in counts.items() if n > 1]
    if problems:
        raise UsageError(f"{path} has bad questions:\n{listed(problems)}", cure="Correct the file.")
    return Dataset(tuple(questions), hashlib.sha256(data).hexdigest())


def problem_of(question: Question) -> Problem:
    """What a role may see of a question: neither key, rubric, notes nor source."""
    return Problem(
        id=question.id,
        text=question.question,
        kind=question.answer_type,
        options=question.options or (),
        subject=question.subject,
    )


def read(path: Path, what: str) -> bytes:
    """Bytes of a file. Raises UsageError; `what` names it for people."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"The {what} {path} cannot be read ({error.strerror}).", cure="Check the path."
        ) from error


def parse(data: bytes, path: Path) -> object:
    """The JSON of a file, whose names must be unique inside an object.

    Raises:
        UsageError: not UTF-8, or not JSON; says where.
    """
    try:
        return json.loads(
            data.decode("utf-8-sig"), object_pairs_hook=_unique, parse_constant=_no_number
        )
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path} is not UTF-8 (byte {error.start}).", cure="Save it as UTF-8."
        ) from error
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{path}, line {error.lineno}, column {error.colno}: not JSON ({error.msg}).",
            cure="Correct the file.",
        ) from error
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise UsageError(f"{path}: not JSON ({reason}).", cure="Correct the file.") from error


def told(error: ValidationError) -> list[str]:
    """What is wrong, a line for each place."""
    return [
        f"{'.'.join(map(str, each['loc'])) or 'entry'}: {each['msg'].removeprefix('Value error, ')}"
        for each in error.errors(include_url=False, include_input=False)
    ]


def listed(problems: Sequence[str]) -> str:
    """Problems as an indented list, the first ones in full."""
    shown = [f"  {problem}" for problem in problems[:MOST_PROBLEMS]]
    more = len(problems) - MOST_PROBLEMS
    return "\n".join([*shown, *([f"  and {more} more"] if more > 0 else [])])


def _named(place: int, entry: object) -> str:
    name = cast("dict[object, object]", entry).get("id") if isinstance(entry, dict) else None
    return f"entry {place + 1}" + (f" ({name[:40]})" if isinstance(name, str) else "")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(name for name, n in Counter(key for key, _ in pairs).items() if n > 1)
        raise ValueError(f"the name {twice!r} stands twice in one object")
    return found


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")
