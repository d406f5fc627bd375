"""Errors on the wire: problem+json with our code, and `detail` as existing clients read it."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import FastAPI
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deerflow.errors import (
    AuthError,
    ConflictError,
    DeerFlowError,
    ForbiddenError,
    LimitError,
    ModelError,
    NotFoundError,
    PathError,
    RateLimitError,
    RecordError,
    SandboxError,
    StorageError,
    ThreadGoneError,
    ToolError,
    UsageError,
)

logger = logging.getLogger(__name__)

STATUS: tuple[tuple[type[DeerFlowError], int], ...] = (
    (ForbiddenError, 403),
    (AuthError, 401),
    (NotFoundError, 404),
    (ThreadGoneError, 404),
    (ConflictError, 409),
    (UsageError, 422),
    (PathError, 422),
    (ToolError, 422),
    (RecordError, 422),
    (LimitError, 429),
    (RateLimitError, 429),
    (ModelError, 502),
    (SandboxError, 503),
    (StorageError, 503),
    (DeerFlowError, 500),
)
"""HTTP status of an error, the first class that fits."""

_BY_STATUS = {
    400: "bad_input",
    401: "not_authenticated",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    412: "changed",
    413: "too_large",
    415: "unsupported_media_type",
    416: "bad_range",
    422: "bad_input",
    429: "too_many_requests",
    503: "not_ready",
}
"""Codes of answers that FastAPI itself gives."""


_LIMIT = "starlette.middleware.body_limit"
"""Its exceptions are how it ends a request that it has answered, and no failures."""


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


def answer(error: DeerFlowError) -> Response:
    """The response that tells an error; one about too much says when to come back."""
    headers: dict[str, str] = {}
    if status_of(error) == 429:
        seconds = error.retry_after if isinstance(error, RateLimitError) else None
        headers["Retry-After"] = str(max(1, round(seconds or 60)))
    return _response(problem(error), headers)


def plain_problem(status: int, code: str, title: str, **more: Any) -> dict[str, Any]:
    """Problem details of an answer that no error of the tree stands for."""
    return {
        "type": f"urn:deerflow:problem:{code}",
        "title": title,
        "status": status,
        "code": code,
        "detail": title,
        "cure": "",
        "retryable": status == 503,
        **more,
    }


def not_ready(seconds: int = 1) -> Response:
    """503 while the process opens or ends.

    Args:
        seconds: when to come back.
    """
    body = plain_problem(503, "not_ready", "The server is starting or stopping.")
    return _response(body, {"Retry-After": str(seconds)})


def install(app: FastAPI) -> None:
    """Give an application the handlers of this page; `Edge` has to be among its middlewares."""
    app.add_exception_handler(DeerFlowError, _told)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _refused)


class Edge:
    """The outer edge: whatever nobody expected becomes a 500 with an id, and a line in the log."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except DeerFlowError as error:
            if begun or scope["type"] != "http":
                raise
            await answer(error)(scope, receive, send)
        except Exception as error:
            if type(error).__module__ == _LIMIT:
                raise
            number = uuid.uuid4().hex[:12]
            logger.exception("request %s %s failed, id %s", scope["type"], scope["path"], number)
            if begun or scope["type"] != "http":
                raise
            title = f"Something went wrong here; the log has it under {number}."
            await _response(plain_problem(500, "error", title, id=number))(scope, receive, send)


class Retold:
    """Around everything: what Starlette's limit of bodies answers as a bare text, in our form.

    The limit stands around all middlewares, so that none of them can do it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        retold = False

        async def sending(message: Message) -> None:
            nonlocal retold
            if _is_too_large(message):
                retold = True
                title = "The request is larger than this route takes."
                await _response(plain_problem(413, "too_large", title))(scope, receive, send)
            if not retold:
                await send(message)

        await self._app(scope, receive, sending)


def _is_too_large(message: Message) -> bool:
    """Whether this begins the answer of the limit."""
    plain = (b"content-type", b"text/plain; charset=utf-8")
    return message.get("status") == 413 and plain in message["headers"]


async def _told(request: Request, error: Exception) -> Response:
    assert isinstance(error, DeerFlowError)  # noqa: S101  (registered for this class)
    if status_of(error) >= 500:
        logger.warning("%s %s: %s", request.method, request.url.path, error)
    return answer(error)


async def _invalid(request: Request, error: Exception) -> Response:
    """422 in the shape that FastAPI's clients know: `detail` is a list of {loc, msg, type}."""
    assert isinstance(error, RequestValidationError)  # noqa: S101  (registered for this class)
    detail = [
        {key: value for key, value in entry.items() if key in ("loc", "msg", "type")}
        for entry in error.errors()
    ]
    title = "The request is not in the expected form."
    body = plain_problem(422, "bad_input", title) | {"detail": jsonable_encoder(detail)}
    return _response(body)


async def _refused(request: Request, error: Exception) -> Response:
    """What FastAPI and Starlette answer by themselves, and HTTPException of routes."""
    assert isinstance(error, HTTPException)  # noqa: S101  (registered for this class)
    code = _BY_STATUS.get(error.status_code, "error")
    title = error.detail if isinstance(error.detail, str) else code  # pyright: ignore[reportUnnecessaryIsInstance]  # FastAPI's takes any JSON
    body = plain_problem(error.status_code, code, title) | {"detail": error.detail}
    if error.status_code in (204, 304):
        return Response(status_code=error.status_code, headers=error.headers)
    return _response(body, error.headers)


def _response(body: dict[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    return Response(
        orjson.dumps(body),
        status_code=body["status"],
        headers=dict(headers or {}),
        media_type="application/problem+json",
    )
