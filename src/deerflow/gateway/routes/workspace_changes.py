"""What a run changed in workspace and outputs."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

from deerflow.gateway.deps import Open
from deerflow.gateway.routes.running import RunRead
from deerflow.runtime.changes import LIMITS, VERSION, result_of

router = APIRouter(tags=["runs"])


class ChangeSummary(BaseModel):
    """Numbers of files, and of lines in those that are text."""

    created: int = 0
    modified: int = 0
    deleted: int = 0
    symlink_created: int = 0
    additions: int = 0
    deletions: int = 0
    truncated: bool = False


class ChangedFile(BaseModel):
    """One file.

    `status` is created, modified, deleted or symlink_created; sizes are in bytes; `diff` holds
    the hunks of a unified diff, null unless asked for.
    """

    path: str
    root: str
    status: str
    size: int = 0
    size_before: int = 0
    additions: int = 0
    deletions: int = 0
    binary: bool = False
    diff: str | None = None
    diff_truncated: bool = False


class WorkspaceChanges(BaseModel):
    """What a run changed; not available while it runs, and when it changed nothing."""

    available: bool
    version: int = VERSION
    summary: ChangeSummary
    files: list[ChangedFile]
    limits: dict[str, int]


@router.get(
    "/threads/{thread_id}/runs/{run_id}/workspace-changes", summary="Files that a run changed"
)
async def get(
    found: RunRead, gate: Open, include_files: bool = True, include_diff: bool = False
) -> WorkspaceChanges:
    """As it was when the run ended."""
    thread, run_id = found.thread, found.run.run_id
    folders = gate.runtime.harness.folders(thread.user_id, thread.thread_key)
    told = await result_of(folders, run_id)
    if told is None:
        return WorkspaceChanges(
            available=False, summary=ChangeSummary(), files=[], limits=dict(LIMITS)
        )
    files = [ChangedFile.model_validate(file) for file in told["files"]] if include_files else []
    if not include_diff:
        for file in files:
            file.diff = None
    return WorkspaceChanges(
        available=True,
        summary=ChangeSummary.model_validate(told["summary"]),
        files=files,
        limits=dict(LIMITS),
    )
