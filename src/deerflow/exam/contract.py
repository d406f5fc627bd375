"""The result file of an exam: read as laxly as the public grader reads it, written strictly."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from jsonschema import Draft202012Validator
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deerflow.errors import RecordError, StorageError, UsageError
from deerflow.exam.dataset import SUBJECTS, QuestionType, Subject, listed, parse, read, told


class Answer(BaseModel):
    """The answer to one question.

    Attributes:
        response: the graded text; "" when there is none.
        latency_ms: of all that was done for the question.
        raw: free-form: state, accepted, attempts, tokens, confidence and so on.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    question_id: str
    subject: Subject
    type: QuestionType
    response: str
    reasoning: str = ""
    latency_ms: int = 0
    raw: dict[str, Any] = Field(default_factory=dict[str, Any])


class ResultFile(BaseModel):
    """Who answered, with what settings, and the answers; `generated_at` is ISO 8601 in UTC."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    framework: str
    model: str
    generated_at: str
    config: dict[str, Any] = Field(default_factory=dict[str, Any])
    results: list[Answer]


_TEXT: Mapping[str, Any] = {"type": "string", "minLength": 1}
_ANSWER: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "question_id": _TEXT,
        "subject": {"enum": list(SUBJECTS)},
        "type": {"enum": ["multiple_choice", "short_answer"]},
        "response": {"type": "string"},
        "reasoning": {"type": "string"},
        "latency_ms": {"type": "integer", "minimum": 0},
        "raw": {"type": "object"},
    },
}
_FILE: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "framework": _TEXT,
        "model": _TEXT,
        "generated_at": {"type": "string"},
        "config": {"type": "object"},
        "results": {
            "type": "array",
            "items": {**_ANSWER, "required": list(_ANSWER["properties"])},
        },
    },
}
_STRICT = Draft202012Validator({**_FILE, "required": list(_FILE["properties"])})


def load_results(document: object) -> ResultFile:
    """A result file from its JSON, as laxly as the public grader takes it.

    Fields without effect on scores may be missing, unknown ones are dropped; one bad answer
    refuses all.

    Raises:
        UsageError: says what is wrong at which place.
    """
    try:
        return ResultFile.model_validate(document)
    except ValidationError as error:
        raise UsageError(f"This is no result file:\n{listed(told(error))}") from error


def read_results(path: Path) -> ResultFile:
    """Read a result file; see `load_results`.

    Raises:
        UsageError: it cannot be read, is not UTF-8, not JSON, or no result file.
    """
    document = parse(read(path, "result file"), path)
    try:
        return load_results(document)
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}", cure="Correct the file.") from error


def check_schema(document: object) -> None:
    """Check the JSON of a result file strictly: every field there, none besides.

    Raises:
        UsageError: says what is wrong at which place.
    """
    found: Iterable[Any] = cast("Any", _STRICT).iter_errors(document)
    problems = [
        f"{'.'.join(map(str, error.absolute_path)) or 'document'}: {error.message[:200]}"
        for error in found
    ]
    if problems:
        raise UsageError(f"The result file breaks its contract:\n{listed(problems)}")


def write_results(path: Path, file: ResultFile) -> None:
    """Replace a result file at once; whoever reads it sees the old one or the new one.

    UTF-8, two spaces, a newline at the end. Blocks while it writes.

    Raises:
        UsageError: the file breaks its contract.
        RecordError: `config` or `raw` holds what JSON cannot say.
        StorageError: it cannot be written.
    """
    document = file.model_dump()
    check_schema(document)
    try:
        text = json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise RecordError(f"The results of {path.name} are no JSON ({error}).") from error
    # Half of a surrogate pair becomes its \u escape, which in JSON says the same.
    replace_file(path, text.encode("utf-8", "backslashreplace"))


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file at once, its folder made when missing. Raises StorageError."""
    trial = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, trial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.")
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(trial, 0o644)
        os.replace(trial, path)
    except OSError as error:
        if trial:
            Path(trial).unlink(missing_ok=True)
        raise StorageError(
            f"{path} cannot be written ({error.strerror}).", cure="Choose another folder."
        ) from error
