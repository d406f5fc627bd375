"""Maps what endpoints, HTTP clients and provider SDKs report to the model errors of the product."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, cast

import orjson

from deerflow.errors import (
    ContextOverflowError,
    DeerFlowError,
    ModelAuthError,
    ModelError,
    ModelPaymentError,
    ModelRequestError,
    ModelTimeoutError,
    ModelUnavailableError,
    RateLimitError,
)

_OVERFLOW = re.compile(
    r"context[_ -]?(length|window|size)|maximum context|max(imum)?[_ ](prompt|input|model)[_ ]len"
    r"|(prompt|input|request)[a-z ]* too (long|large)|too many (input )?tokens"
    r"|exceed\w* [a-z ]*(token|context)",
    re.IGNORECASE,
)
_UNPAID = re.compile(
    r"insufficient[_ ](quota|balance|credit|fund)|billing[_ ](hard[_ ]limit|not[_ ]active)"
    r"|credit balance is too low|payment required|out of credit",
    re.IGNORECASE,
)
_OVERLOADED = re.compile(r"overloaded|server[_ ]error|internal error|unavailable", re.IGNORECASE)
_LIMITED = re.compile(r"rate[_ ]?limit|too many requests|resource[_ ]exhausted", re.IGNORECASE)
_BAD_KEY = re.compile(r"invalid[_ ]api[_ ]key|authentication|unauthorized", re.IGNORECASE)
_SECRET = re.compile(r"(?i)\b(bearer\s+|(?:sk|pk|rk|gsk|xai|key|api[_-]?key)[-_=: ]+)[\w.*-]{6,}")
_PATH = re.compile(r"(?<![\w/:.])/(?:[\w.@-]+/)+[\w.@-]+")

_NO_CHUNKS = "No generation chunks were returned"
"""What LangChain raises for a stream without a chunk."""
_TIMEOUT_NAMES = frozenset(
    {
        "APITimeoutError",
        "ConnectTimeout",
        "ConnectionTimeoutError",
        "PoolTimeout",
        "ReadTimeout",
        "ServerTimeoutError",
        "SocketTimeoutError",
        "WriteTimeout",
    }
)
_CONNECTION_NAMES = frozenset(
    {
        "APIConnectionError",
        "ConnectError",
        "NetworkError",
        "ProtocolError",
        "ReadError",
        "RemoteProtocolError",
        "ResponseError",
        "TransportError",
        "WriteError",
    }
)


def from_response(
    status: int, body: bytes | str, headers: Mapping[str, str], *, model: str
) -> ModelError:
    """The error of an HTTP answer.

    Args:
        status: HTTP status, not 200.
        body: as received; JSON with an `error` object, or anything.
        headers: of the answer; Retry-After (seconds or HTTP date) and retry-after-ms are read.
        model: configured name, for the message.
    """
    return classify(status, *_words(body), retry_after=retry_after(headers), model=model)


def from_payload(payload: Any, *, model: str) -> ModelError:
    """The error of an `error` object inside a stream.

    Its status stands in `code` or is guessed from the words.
    """
    text, kind = _describe(payload)
    found = re.search(r"\b[45]\d\d\b", kind)
    status = int(found.group()) if found else 0
    return classify(status, text, kind, retry_after=None, model=model)


def classify(
    status: int, text: str, kind: str, *, retry_after: float | None, model: str
) -> ModelError:
    """One error from a status (0 when unknown), the provider's words and its error type."""
    words = f"{kind} {text}"
    said = f" It says: {safe(text)}" if text else ""
    if status == 402 or _UNPAID.search(words):
        return ModelPaymentError(
            f"Model {model!r}: the account has no credit.",
            model=model,
            cure="Top it up at the provider or choose another model.",
        )
    if status in (401, 403) or (not status and _BAD_KEY.search(words)):
        return ModelAuthError(
            f"Model {model!r}: the key is missing, wrong or lacks rights.",
            model=model,
            cure="Check `api_key` of this model in the configuration.",
        )
    if status == 413 or (status < 500 and status != 429 and _OVERFLOW.search(words)):
        return ContextOverflowError(
            f"Model {model!r}: the request is larger than the model's window.{said}", model=model
        )
    if status == 429 or (status < 500 and _LIMITED.search(words)):
        return RateLimitError(
            f"Model {model!r}: too many requests.{said}",
            model=model,
            retry_after=retry_after,
            cure="Wait, or choose another model.",
        )
    if status in (408, 504):
        return ModelTimeoutError(f"Model {model!r}: the endpoint timed out.{said}", model=model)
    if status >= 500 or status in (409, 425) or (not status and _OVERLOADED.search(words)):
        shown = f" ({status})" if status else ""
        return ModelUnavailableError(
            f"Model {model!r}: the endpoint failed{shown}.{said}", model=model
        )
    if not status:  # an error in a stream that says nothing about itself: the request was accepted
        return ModelUnavailableError(f"Model {model!r}: the answer broke off.{said}", model=model)
    cure = "Check `model` and `base_url` in the configuration." if status == 404 else ""
    return ModelRequestError(
        f"Model {model!r}: the provider refused the request ({status}).{said}",
        model=model,
        cure=cure,
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait as the headers say, None when they do not."""
    found = {name.lower(): value.strip() for name, value in headers.items()}
    millis = found.get("retry-after-ms", "")
    if re.fullmatch(r"\d+(\.\d+)?", millis):
        return float(millis) / 1000
    value = found.get("retry-after", "")
    if re.fullmatch(r"\d+(\.\d+)?", value):
        return float(value)
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())


def safe(text: str, limit: int = 300) -> str:
    """Provider's words with keys and host paths removed, cut to `limit` characters."""
    clean = _PATH.sub("[path]", _SECRET.sub("[secret]", " ".join(text.split())))
    return clean if len(clean) <= limit else clean[:limit] + " …"


class Translated:
    """Context manager that raises foreign errors of a model call as ours.

    Knows OpenAI, Anthropic, Google and httpx by `status_code` and class name, so none of them is
    imported. Errors that it does not know, cancellation and interrupts pass.
    """

    def __init__(self, model: str) -> None:
        self._model = model

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        mapped = from_exception(error, model=self._model) if error is not None else None
        if mapped is not None:
            raise mapped from error


def from_exception(error: BaseException, *, model: str) -> ModelError | None:
    """Our error for a foreign one, or None when it is not about the model call."""
    if isinstance(error, DeerFlowError) or not isinstance(error, Exception):
        return None
    status = _status(error)
    if status:
        response = getattr(error, "response", None)
        headers: Any = getattr(response, "headers", None)
        text, kind = _describe(getattr(error, "body", None))
        wait = (
            retry_after(cast("Mapping[str, str]", headers))
            if isinstance(headers, Mapping)
            else None
        )
        return classify(status, text or str(error), kind, retry_after=wait, model=model)
    names = {cls.__name__ for cls in type(error).__mro__}
    if names & _TIMEOUT_NAMES or isinstance(error, TimeoutError):
        return ModelTimeoutError(f"Model {model!r}: the endpoint timed out.", model=model)
    if names & _CONNECTION_NAMES or isinstance(error, (ConnectionError, socket.gaierror)):
        return unreachable(model)
    if isinstance(error, ValueError) and str(error) == _NO_CHUNKS:
        return ModelUnavailableError(f"Model {model!r}: the endpoint sent nothing.", model=model)
    if "APIError" in names or "AnthropicError" in names or "OpenAIError" in names:
        return from_payload(getattr(error, "body", None) or {"message": str(error)}, model=model)
    return None


def unreachable(model: str) -> ModelUnavailableError:
    """No connection to the endpoint: refused, unknown host, TLS or broken off."""
    return ModelUnavailableError(
        f"Model {model!r}: the endpoint cannot be reached or closed the connection.",
        model=model,
        cure="Check `base_url` of this model and that its server runs.",
    )


def _status(error: BaseException) -> int:
    for name in ("status_code", "status", "code"):
        value = getattr(error, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and 400 <= value < 600:
            return value
    return 0


def _words(body: bytes | str) -> tuple[str, str]:
    try:
        return _describe(orjson.loads(body))
    except orjson.JSONDecodeError:
        text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
        return ("" if text.lstrip().startswith("<") else text, "")


def _describe(payload: Any) -> tuple[str, str]:
    """(message, type and code) of an error payload of whatever shape."""
    if isinstance(payload, list) and payload:  # Gemini's compatible endpoint wraps it in a list
        return _describe(cast("list[Any]", payload)[0])
    if not isinstance(payload, dict):
        return (payload if isinstance(payload, str) else "", "")
    fields = cast("dict[str, Any]", payload)
    inner = fields.get("error")
    if isinstance(inner, (dict, list, str)):
        return _describe(inner)
    text = fields.get("message") or fields.get("detail") or ""
    kind = " ".join(str(fields[name]) for name in ("type", "code", "status") if fields.get(name))
    return (text if isinstance(text, str) else orjson.dumps(text, default=str).decode(), kind)
