"""What is refused before anything is written or opened."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Callable
from pathlib import Path

from deerflow.agent.deliverables import OUTPUTS, requested_files
from deerflow.config.schema import AppConfig
from deerflow.errors import NotFoundError, UsageError
from deerflow.middlewares.requests import compact_hint
from deerflow.models.protocol import Catalog
from deerflow.runtime.goals import command_of, goal_of
from deerflow.runtime.intake import check_uploads
from deerflow.runtime.request import RunRequest
from deerflow.sandbox.protocol import ThreadFolders

MAX_ID = 255
"""Characters of a thread id at most."""


async def check_request(request: RunRequest, config: AppConfig, catalog: Catalog) -> None:
    """Refuse what can be refused before anything is written or opened.

    Raises:
        UsageError: empty task, bad upload, thread id, goal, deliverable or number, or what a
            resume cannot take.
        NotFoundError: unknown model.
    """
    name = request.thread_id
    if name is not None and (not name.strip() or len(name) > MAX_ID or not name.isprintable()):
        raise UsageError(
            f"A thread id has 1 to {MAX_ID} printable characters.",
            cure="Leave it away to start a new thread.",
        )
    if request.max_turns is not None and request.max_turns < 1:
        raise UsageError("A run needs at least one model turn.", cure="Raise max_turns.")
    if request.resume:
        _check_resume(request)
    elif not request.task.strip() and request.goal is None:
        raise UsageError("The task is empty.", cure='Say what to do: deerflow run "TASK".')
    goal_of(request.goal)
    command_of(request.task)
    expected(request)
    if not request.resume or request.model:
        catalog.spec(request.model or catalog.default)
    if request.uploads:
        await asyncio.to_thread(check_uploads, request.uploads, config.uploads)


def _check_resume(request: RunRequest) -> None:
    further = request.uploads or request.expect or request.plan or request.goal is not None
    if request.task.strip() or further:
        raise UsageError(
            "A resume continues the last task as it was asked: it takes no task, upload, "
            "expected file, plan or goal.",
            cure="Leave them away, or give the thread a new task.",
        )
    if request.thread_id is None:
        raise UsageError(
            "A resume needs the thread.", cure="`deerflow threads list` shows the threads."
        )


def delegates(request: RunRequest, config: AppConfig) -> bool:
    """Whether the lead of this run may hand work to children."""
    return config.subagents.enabled if request.delegate is None else request.delegate


def verifies(request: RunRequest, config: AppConfig) -> bool:
    """Whether the answer of this run is verified."""
    return config.verify if request.verify is None else request.verify


def no_thread(thread_id: str | None) -> NotFoundError:
    """The one way to say that a thread does not exist or is someone else's."""
    return NotFoundError(
        f"There is no thread {thread_id!r} here.",
        cure="`deerflow threads list` shows the threads of this home.",
    )


def expected(request: RunRequest) -> tuple[str, ...]:
    """Names below outputs that the caller expects.

    Raises:
        UsageError: a name that is empty or leaves outputs.
    """
    names: list[str] = []
    for given in request.expect:
        name = posixpath.normpath(given.removeprefix(OUTPUTS)) if given.strip() else ""
        outside = name in ("", ".", "..") or name.startswith(("/", "../"))
        if outside or not name.isprintable():
            raise UsageError(
                f"{given!r} is no file below outputs.", cure="Give a name like report.md."
            )
        names.append(name)
    return tuple(names)


async def asked_for(request: RunRequest, folders: Callable[[], ThreadFolders]) -> tuple[str, ...]:
    """Files that the task asks for; what the thread has already, in `folders`, is a source."""
    if compact_hint(request.task) is not None or not requested_files(request.task):
        return ()
    existing = await asyncio.to_thread(_names_in, folders())
    existing.update(path.name for path in request.uploads)
    return requested_files(request.task, existing)


def _names_in(folders: ThreadFolders) -> set[str]:
    """File names in uploads and workspace (two levels), which a task may mention as sources."""
    names: set[str] = set()
    for folder in (folders.uploads, folders.workspace):
        if folder.is_dir():
            names.update(_below(folder))
    return names


def _below(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir() if not p.name.startswith(".")} | {
        p.relative_to(folder).as_posix() for p in folder.glob("*/*")
    }
