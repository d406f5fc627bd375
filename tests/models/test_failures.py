"""Each way a model call fails has one class of error, without importing an SDK."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest

from deerflow.errors import (
    ContextOverflowError,
    ModelAuthError,
    ModelError,
    ModelPaymentError,
    ModelRequestError,
    ModelTimeoutError,
    ModelUnavailableError,
    RateLimitError,
)
from deerflow.models.failures import (
    Translated,
    from_exception,
    from_payload,
    from_response,
    retry_after,
    safe,
)

RESPONSES: list[tuple[int, Any, type[ModelError]]] = [
    (401, {"error": {"message": "Incorrect API key provided: sk-abcdefgh"}}, ModelAuthError),
    (403, {"error": {"message": "no"}}, ModelAuthError),
    (402, {"error": {"message": "Insufficient Balance"}}, ModelPaymentError),
    (429, {"error": {"code": "insufficient_quota", "message": "q"}}, ModelPaymentError),
    (400, {"error": {"message": "Your credit balance is too low"}}, ModelPaymentError),
    (429, {"error": {"message": "slow down"}}, RateLimitError),
    (400, {"error": {"message": "maximum context length is 8192 tokens"}}, ContextOverflowError),
    (400, {"error": {"message": "prompt is too long: 210 > 200"}}, ContextOverflowError),
    (
        400,
        {"error": {"message": "request exceeds the available context size"}},
        ContextOverflowError,
    ),
    (413, "too big", ContextOverflowError),
    (400, {"error": {"message": "bad tool"}}, ModelRequestError),
    (422, {"detail": [{"msg": "field required"}]}, ModelRequestError),
    (404, {"error": {"message": "no such model"}}, ModelRequestError),
    (400, [{"error": {"code": 400, "message": "gemini", "status": "INVALID"}}], ModelRequestError),
    (408, "", ModelTimeoutError),
    (504, "<html>gateway</html>", ModelTimeoutError),
    (500, {"error": {"message": "maximum context length"}}, ModelUnavailableError),
    (502, "<html>bad</html>", ModelUnavailableError),
    (529, {"error": {"type": "overloaded_error"}}, ModelUnavailableError),
]


@pytest.mark.parametrize(("status", "body", "kind"), RESPONSES)
def test_responses(status: int, body: Any, kind: type[ModelError]) -> None:
    raw = body if isinstance(body, str) else json.dumps(body)
    error = from_response(status, raw, {}, model="main")
    assert type(error) is kind
    assert error.model == "main" and "'main'" in str(error)
    assert "sk-abcdefgh" not in str(error) and "<html>" not in str(error)


PAYLOADS: list[tuple[Any, type[ModelError]]] = [
    ({"error": {"message": "Overloaded", "type": "overloaded_error"}}, ModelUnavailableError),
    ({"error": {"message": "x", "code": 429}}, RateLimitError),
    ({"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}}, RateLimitError),
    ({"error": {"message": "x", "code": "context_length_exceeded"}}, ContextOverflowError),
    ({"error": {"message": "x", "code": "insufficient_quota"}}, ModelPaymentError),
    ({"error": {"message": "x", "code": "400"}}, ModelRequestError),
    ({"error": "it broke"}, ModelUnavailableError),
    ({"message": "it broke", "object": "error"}, ModelUnavailableError),
]


@pytest.mark.parametrize(("payload", "kind"), PAYLOADS)
def test_errors_in_a_stream(payload: Any, kind: type[ModelError]) -> None:
    assert type(from_payload(payload, model="m")) is kind


def test_retry_after_forms() -> None:
    assert retry_after({"Retry-After": "1.5"}) == 1.5
    assert retry_after({"retry-after-ms": "250", "retry-after": "9"}) == 0.25
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    assert 25 < (retry_after({"retry-after": soon}) or 0) <= 30
    assert retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0
    assert retry_after({"retry-after": "soon"}) is None
    assert retry_after({}) is None


def test_safe_words() -> None:
    text = safe("key sk-proj-12345678 of /home/me/app.py  and\n Bearer abcdef123 " + "x" * 400)
    assert "12345678" not in text and "/home/me" not in text and "abcdef123" not in text
    assert len(text) <= 302


class APIConnectionError(Exception):
    """Named like the SDK's."""


class APIStatusError(Exception):
    """Shaped like the SDK's."""

    def __init__(self, status: int, headers: dict[str, str]) -> None:
        super().__init__("status")
        self.status_code = status
        self.response = httpx.Response(status, headers=headers)
        self.body = {"message": "words", "type": "t"}


def test_foreign_errors() -> None:
    limited = from_exception(APIStatusError(429, {"Retry-After": "3"}), model="m")
    assert isinstance(limited, RateLimitError) and limited.retry_after == 3
    request = httpx.Request("POST", "http://x")
    kinds: list[tuple[BaseException, type[ModelError]]] = [
        (APIConnectionError(), ModelUnavailableError),
        (httpx.ConnectError("no", request=request), ModelUnavailableError),
        (httpx.ReadTimeout("late", request=request), ModelTimeoutError),
        (TimeoutError(), ModelTimeoutError),
        (ConnectionResetError(), ModelUnavailableError),
    ]
    for error, kind in kinds:
        assert type(from_exception(error, model="m")) is kind


@pytest.mark.parametrize(
    "error", [ValueError("a bug"), asyncio.CancelledError(), RateLimitError("ours", model="x")]
)
def test_other_errors_pass(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, Translated("m"):
        raise error
    assert caught.value is error
