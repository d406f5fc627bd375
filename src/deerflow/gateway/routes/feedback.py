"""What people think of runs: a thumb up or down with a comment, one per run and person."""

from __future__ import annotations

import time
from typing import Annotated, Literal
from uuid import uuid4

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel, Field

from deerflow.errors import NotFoundError
from deerflow.gateway.deps import Caller, Open, needs
from deerflow.gateway.routes.bodies import Body, Ident
from deerflow.gateway.routes.running import Found, RunDelete, own_run
from deerflow.gateway.wire import iso
from deerflow.storage.protocol import FeedbackRow

router = APIRouter(tags=["feedback"])

RunRate = Annotated[Found, Depends(own_run("threads:write"))]
RunRated = Annotated[Found, Depends(own_run("threads:read"))]
Rating = Literal[-1, 1]


class FeedbackBody(Body):
    """A rating: 1 for good, -1 for bad."""

    rating: Rating
    comment: str | None = Field(None, max_length=10_000)
    message_id: str | None = Field(None, max_length=255)


class Feedback(BaseModel):
    """What somebody thinks of a run."""

    feedback_id: str
    run_id: str
    thread_id: str
    rating: Rating
    comment: str | None = None
    message_id: str | None = None
    created_at: str


class FeedbackStats(BaseModel):
    """How often a run was found good and bad."""

    run_id: str
    total: int
    positive: int
    negative: int


@router.put("/threads/{thread_id}/runs/{run_id}/feedback", summary="Rate a run")
async def put(found: RunRate, given: FeedbackBody, gate: Open) -> Feedback:
    """Replaces the caller's former rating of the run."""
    return await _put(found, given, gate)


@router.post("/threads/{thread_id}/runs/{run_id}/feedback", summary="Rate a run")
async def post(found: RunRate, given: FeedbackBody, gate: Open) -> Feedback:
    """Like PUT: nobody has two opinions of one run."""
    return await _put(found, given, gate)


@router.get("/threads/{thread_id}/runs/{run_id}/feedback", summary="Ratings of a run")
async def listing(found: RunRated, gate: Open) -> list[Feedback]:
    """Oldest first."""
    return await _of(found, gate)


@router.get("/threads/{thread_id}/runs/{run_id}/feedback/stats", summary="Ratings, counted")
async def stats(found: RunRated, gate: Open) -> FeedbackStats:
    """Numbers alone."""
    ratings = [row.rating for row in await _of(found, gate)]
    return FeedbackStats(
        run_id=found.run.run_id,
        total=len(ratings),
        positive=ratings.count(1),
        negative=ratings.count(-1),
    )


@router.delete(
    "/threads/{thread_id}/runs/{run_id}/feedback", status_code=204, summary="Take a rating back"
)
async def delete(found: RunDelete, gate: Open) -> Response:
    """The caller's; 404 when there is none."""
    return await _remove(found, gate, None)


@router.delete(
    "/threads/{thread_id}/runs/{run_id}/feedback/{feedback_id}",
    status_code=204,
    summary="Take a rating back by its id",
)
async def delete_one(found: RunDelete, feedback_id: Ident, gate: Open) -> Response:
    """The caller's; 404 when there is none of this id."""
    return await _remove(found, gate, feedback_id)


@router.get("/runs/{run_id}/feedback", summary="Ratings of a run by its id alone")
async def of_run(
    run_id: Ident, gate: Open, who: Annotated[Caller, needs("runs:read")]
) -> list[Feedback]:
    """Oldest first."""
    return await _of(Found(*await gate.runtime.submissions.find(who.user_id, run_id)), gate)


async def _put(found: Found, given: FeedbackBody, gate: Open) -> Feedback:
    data = {"comment": given.comment, "message_id": given.message_id}
    row = FeedbackRow(
        uuid4().hex,
        found.thread.thread_key,
        found.run.run_id,
        found.thread.user_id,
        given.rating,
        time.time(),
        {key: value for key, value in data.items() if value is not None},
    )
    return _shown(await gate.runtime.harness.storage.documents.put_feedback(row), found)


async def _of(found: Found, gate: Open) -> list[Feedback]:
    documents = gate.runtime.harness.storage.documents
    rows = await documents.feedback(found.thread.thread_key, run_id=found.run.run_id)
    return [_shown(row, found) for row in rows]


async def _remove(found: Found, gate: Open, feedback_id: str | None) -> Response:
    documents = gate.runtime.harness.storage.documents
    thread, run_id = found.thread, found.run.run_id
    if not await documents.remove_feedback(thread.thread_key, run_id, thread.user_id, feedback_id):
        raise NotFoundError("There is no such feedback.")
    return Response(status_code=204)


def _shown(row: FeedbackRow, found: Found) -> Feedback:
    return Feedback(
        feedback_id=row.feedback_id,
        run_id=row.run_id,
        thread_id=found.thread.thread_id,
        rating=1 if row.rating > 0 else -1,
        comment=row.data.get("comment"),
        message_id=row.data.get("message_id"),
        created_at=iso(row.created_at) or "",
    )
