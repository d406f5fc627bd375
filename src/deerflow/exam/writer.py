"""The Report Writer: result files in the public contract, made of the statuses alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deerflow.exam.contract import Answer, ResultFile, write_results
from deerflow.exam.dataset import Question
from deerflow.verify.messages import QuestionStatus

FRAMEWORK = "deerflow"


def result_path(out: Path, repeat: int) -> Path:
    """Where the results of a repeat (from 1) lie below the folder of an exam."""
    return out / ("results.json" if repeat == 1 else f"results-{repeat}.json")


def result_file(
    questions: Sequence[Question],
    statuses: Sequence[QuestionStatus],
    *,
    model: str,
    generated_at: str,
    config: Mapping[str, Any],
) -> ResultFile:
    """One repeat as a result file: one answer for each question, in the order of the dataset."""
    answers = [
        Answer(
            question_id=question.id,
            subject=question.subject,
            type=question.type,
            response=status.final_response,
            reasoning=status.reasoning,
            latency_ms=status.latency_ms,
            raw=status.raw,
        )
        for question, status in zip(questions, statuses, strict=True)
    ]
    return ResultFile(
        framework=FRAMEWORK,
        model=model,
        generated_at=generated_at,
        config=dict(config),
        results=answers,
    )


def write(path: Path, file: ResultFile) -> None:
    """Write a result file at once and whole. Raises StorageError."""
    write_results(path, file)
