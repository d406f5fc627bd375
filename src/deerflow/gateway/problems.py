"""Errors on the wire: problem+json with our code, and `detail` as existing clients read it."""

from __future__ import annotations

from typing import Any

from deerflow.errors import (
    AuthError,
    ConflictError,
    DeerFlowError,
    ForbiddenError,
    NotFoundError,
    StorageError,
    ThreadGoneError,
    UsageError,
)

STATUS: tuple[tuple[type[DeerFlowError], int], ...] = (
    (ForbiddenError, 403),
    (AuthError, 401),
    (NotFoundError, 404),
    (ThreadGoneError, 404),
    (ConflictError, 409),
    (UsageError, 422),
    (StorageError, 503),
    (DeerFlowError, 500),
)
"""HTTP status of an error, the first class that fits."""


def status_of(error: DeerFlowError) -> int:
    """The HTTP status of an error."""
    return next(status for kind, status in STATUS if isinstance(error, kind))


def problem(error: DeerFlowError) -> dict[str, Any]:
    """An error as RFC 9457 problem details, with `detail` for clients of the protocol.

    `detail` is a sentence; for sign-in errors {code, message}, as the web client reads it.
    """
    status = status_of(error)
    detail: Any = str(error)
    if isinstance(error, AuthError) and not isinstance(error, ForbiddenError):
        detail = {"code": error.reason, "message": str(error)}
    return {
        "type": f"urn:deerflow:problem:{error.code}",
        "title": error.message,
        "status": status,
        "code": error.code,
        "detail": detail,
        "cure": error.cure,
        "retryable": error.retryable and status >= 500,
    }
