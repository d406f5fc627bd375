from __future__ import annotations

import json
import logging
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, HTTPException
from starlette.middleware import Middleware

from deerflow.errors import (
    AuthError,
    ConflictError,
    DeerFlowError,
    ForbiddenError,
    LeaseLostError,
    LimitError,
    ModelUnavailableError,
    NotFoundError,
    PathError,
    RateLimitError,
    RecordError,
    SandboxUnavailableError,
    StorageError,
    ThreadGoneError,
    ToolError,
    UsageError,
)
from deerflow.gateway.problems import Edge, answer, install, problem, status_of


def _app() -> FastAPI:
    app = FastAPI(middleware=[Middleware(Edge)])
    install(app)

    @app.get("/number")
    async def number(value: int) -> int:
        return value

    @app.get("/broken")
    async def broken() -> None:
        raise RuntimeError("secret of the database")

    @app.get("/busy")
    async def busy() -> None:
        raise ConflictError("A run is under way.", cure="Wait for it.")

    @app.get("/taken")
    async def taken() -> None:
        raise HTTPException(409, {"code": "email_already_exists", "message": "Taken."})

    return app


async def _get(path: str) -> httpx.Response:
    transport = httpx.ASGITransport(_app())
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        return await client.get(path)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (AuthError("x"), 401),
        (ForbiddenError("x"), 403),
        (NotFoundError("x"), 404),
        (ThreadGoneError("x"), 404),
        (ConflictError("x"), 409),
        (UsageError("x"), 422),
        (PathError("x"), 422),
        (ToolError("x"), 422),
        (RecordError("x"), 422),
        (LimitError("x", rule="r", used=1, limit=1), 429),
        (RateLimitError("x"), 429),
        (ModelUnavailableError("x"), 502),
        (SandboxUnavailableError("x"), 503),
        (LeaseLostError("x"), 503),
        (StorageError("x"), 503),
        (DeerFlowError("x"), 500),
    ],
)
def test_an_error_has_the_status_of_its_kind(error: DeerFlowError, status: int) -> None:
    body = problem(error)
    assert (status_of(error), body["status"]) == (status, status)
    assert body["code"] == error.code
    assert not (body["retryable"] and status < 500)


def test_a_client_s_fault_is_never_told_as_worth_a_retry() -> None:
    assert problem(RateLimitError("x"))["retryable"] is False
    assert problem(ModelUnavailableError("x"))["retryable"] is True


def test_a_rate_limit_says_when_to_come_back() -> None:
    assert answer(RateLimitError("x", retry_after=7)).headers["retry-after"] == "7"
    assert answer(LimitError("x", rule="r", used=1, limit=1)).headers["retry-after"] == "60"
    assert "retry-after" not in answer(ConflictError("x")).headers


async def test_an_error_is_problem_json_with_its_cure() -> None:
    found = await _get("/busy")
    body: dict[str, Any] = found.json()
    assert found.headers["content-type"] == "application/problem+json"
    assert (body["title"], body["cure"]) == ("A run is under way.", "Wait for it.")
    assert body["detail"] == "A run is under way. Wait for it."
    assert body["type"] == "urn:deerflow:problem:conflict"


async def test_a_wrong_request_is_told_in_the_shape_that_fastapi_s_clients_know() -> None:
    found = await _get("/number?value=many")
    body: dict[str, Any] = found.json()
    assert found.status_code == body["status"] == 422
    assert body["detail"][0]["loc"] == ["query", "value"]
    assert "many" not in json.dumps(body)


async def test_what_nobody_expected_is_a_number_and_a_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        found = await _get("/broken")
    body: dict[str, Any] = found.json()
    assert found.status_code == 500
    assert body["id"] in body["title"]
    assert body["id"] in caplog.text
    assert "secret of the database" in caplog.text
    assert "secret" not in found.text
    assert "Traceback" not in found.text


@pytest.mark.parametrize(("path", "status", "code"), [("/none", 404, "not_found")])
async def test_what_the_framework_answers_has_the_same_form(
    path: str, status: int, code: str
) -> None:
    body = (await _get(path)).json()
    assert (body["status"], body["code"], body["detail"]) == (status, code, "Not Found")


async def test_a_route_may_give_detail_as_an_object() -> None:
    body = (await _get("/taken")).json()
    assert body["detail"] == {"code": "email_already_exists", "message": "Taken."}
    assert body["code"] == "conflict"
