"""Every error of the product: one tree, each with a code and a safe message.

DeerFlowError
├── UsageError            bad input from the caller (exit code 2, HTTP 4xx)
│   ├── ConfigError       one or more problems in a configuration file
│   ├── NotFoundError     no such thread, run, file, model (also someone else's)
│   └── AuthError         nobody is signed in, or the secret is wrong
│       └── ForbiddenError         signed in, but without the right
├── ModelError            a model call failed
│   ├── ModelAuthError    key missing, wrong or without rights
│   ├── ModelPaymentError account without credit
│   ├── ModelRequestError the provider refuses the request as it stands
│   │   └── ContextOverflowError   the request is larger than the model's window
│   ├── RateLimitError    too many requests (retryable, may carry retry_after)
│   ├── ModelTimeoutError first byte or idle limit passed (retryable)
│   ├── ModelUnavailableError      5xx, connection refused, breaker open (retryable)
│   └── ScriptError       the scripted model was asked for more than was written
├── SandboxError          the sandbox could not be started or lost its process
│   ├── PathError         a path outside the virtual tree, a link that leaves it
│   └── SandboxUnavailableError    no isolation level that the configuration permits
├── ToolError             a tool refuses or fails; the text tells the model how to go on
├── StorageError          the database or the disk failed
│   ├── ThreadGoneError   the thread was deleted; late writes are refused
│   ├── ConflictError     someone else changed it first
│   └── LeaseLostError    the worker's runs were given to another; late writes are refused
└── LimitError            a limit of the run was reached (rule, used, limit)
"""

from __future__ import annotations

from typing import ClassVar


class DeerFlowError(Exception):
    """Root of the tree.

    Attributes:
        code: stable machine name, snake case.
        message: safe to show to any user: no secret, no host path.
        retryable: whether the same call may succeed later.
        cure: what the reader can do about it, or "".
    """

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, cure: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.cure = cure

    def __str__(self) -> str:
        return f"{self.message} {self.cure}".strip() if self.cure else self.message


class UsageError(DeerFlowError):
    """The caller's input is wrong."""

    code = "bad_input"


class ConfigError(UsageError):
    """Problems in a configuration file; `problems` holds one line each (key, file, line, cure)."""

    code = "bad_config"

    def __init__(self, problems: list[str], *, cure: str = "") -> None:
        super().__init__("\n".join(problems), cure=cure)
        self.problems = problems


class NotFoundError(UsageError):
    """No such thing, or not yours: the two are told apart by nobody."""

    code = "not_found"


class AuthError(UsageError):
    """Nobody is signed in, or the secret is wrong. `reason` is the wire's code of it."""

    code = "not_authenticated"

    def __init__(self, message: str, *, reason: str = "not_authenticated", cure: str = "") -> None:
        super().__init__(message, cure=cure)
        self.reason = reason


class ForbiddenError(AuthError):
    """Signed in, but without the right."""

    code = "forbidden"


class ModelError(DeerFlowError):
    """A model call failed. `model` names it as the configuration does."""

    code = "model_error"

    def __init__(self, message: str, *, model: str = "", cure: str = "") -> None:
        super().__init__(message, cure=cure)
        self.model = model


class ModelAuthError(ModelError):
    """The key is missing, wrong or lacks rights."""

    code = "model_auth"


class ModelPaymentError(ModelError):
    """The account has no credit."""

    code = "model_payment"


class ModelRequestError(ModelError):
    """The provider refuses the request as it stands; a retry cannot help."""

    code = "model_request"


class ContextOverflowError(ModelRequestError):
    """The request does not fit into the model's window."""

    code = "context_overflow"


class RateLimitError(ModelError):
    """Too many requests; `retry_after` is in seconds when the provider said so."""

    code = "rate_limit"
    retryable = True

    def __init__(
        self, message: str, *, model: str = "", retry_after: float | None = None, cure: str = ""
    ) -> None:
        super().__init__(message, model=model, cure=cure)
        self.retry_after = retry_after


class ModelTimeoutError(ModelError):
    """No first byte, or no further byte, within the limit."""

    code = "model_timeout"
    retryable = True


class ModelUnavailableError(ModelError):
    """The endpoint answers 5xx, cannot be reached, or its breaker is open."""

    code = "model_unavailable"
    retryable = True


class ScriptError(ModelError):
    """The scripted model was asked for more turns than its script holds."""

    code = "script_exhausted"


class SandboxError(DeerFlowError):
    """The sandbox failed."""

    code = "sandbox_error"


class PathError(SandboxError):
    """The path is outside the virtual tree or leaves it by a link."""

    code = "bad_path"


class SandboxUnavailableError(SandboxError):
    """No isolation level that the configuration permits can be had on this machine."""

    code = "sandbox_unavailable"


class ToolError(DeerFlowError):
    """A tool refuses or fails; message and cure are written for the model."""

    code = "tool_error"


class StorageError(DeerFlowError):
    """The database or the disk failed."""

    code = "storage_error"


class RecordError(StorageError):
    """Something that was to be stored is nothing that can be stored."""

    code = "bad_record"


class ThreadGoneError(StorageError):
    """The thread was deleted; late writers are refused."""

    code = "thread_gone"


class ConflictError(StorageError):
    """Someone else changed it first."""

    code = "conflict"


class LeaseLostError(StorageError):
    """The worker's runs were given to another; late writes are refused."""

    code = "lease_lost"


class LimitError(DeerFlowError):
    """A limit of the run was reached.

    Attributes:
        rule: name of the limit, e.g. "max_turns".
        used: what was used when it stopped.
        limit: what was allowed.
    """

    code = "limit_reached"

    def __init__(self, message: str, *, rule: str, used: float, limit: float) -> None:
        super().__init__(message)
        self.rule = rule
        self.used = used
        self.limit = limit
