"""People and what they keep: accounts, tokens, audit, preferences, feedback, assistants.

Contracts like those of `protocol.py`, which hands them on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

TokenKind = Literal["session", "api", "setup", "login"]

ATTEMPTS_KEPT_SECONDS = 86_400.0
"""How long failed logins are kept; no limit looks back further than a day."""


@dataclass(frozen=True, slots=True)
class UserRow:
    """An account.

    Attributes:
        user_id: random; owner of threads and everything else.
        email: lower case, unique.
        password: argon2 hash, None for people who sign in elsewhere.
        role: admin or user.
        created_at: UTC seconds.
        active: False locks the account out.
        data: JSON object (needs_setup, oauth_provider, …).
    """

    user_id: str
    email: str
    password: str | None
    role: str
    created_at: float
    active: bool = True
    data: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A secret that somebody holds; only its sha256 is kept.

    Attributes:
        token_id: random; names it without giving it away.
        user_id: whose.
        kind: session (cookie), api, setup (the first admin) or login (an OIDC attempt).
        hash: sha256 of the secret.
        name: for people.
        created_at, expires_at, used_at: UTC seconds.
        data: JSON object (scopes of an api token; state of a login).
    """

    token_id: str
    user_id: str
    kind: TokenKind
    hash: bytes
    name: str = ""
    created_at: float = 0.0
    expires_at: float | None = None
    used_at: float | None = None
    data: dict[str, Any] = field(default_factory=dict[str, Any])

    def expired(self, now: float) -> bool:
        """Whether it no longer works."""
        return self.expires_at is not None and self.expires_at <= now


def signed_in(
    token: TokenRow, user: UserRow | None, *, now: float
) -> tuple[TokenRow, UserRow | None] | None:
    """What `Accounts.token` gives for a token and the account that it names."""
    if token.expired(now):
        return None
    if token.kind in ("setup", "login"):
        return token, None
    return (token, user) if user is not None and user.active else None


@dataclass(frozen=True, slots=True)
class AuditRow:
    """Somebody did something: no content, no secret."""

    at: float
    user_id: str
    action: str
    target: str = ""
    address: str = ""
    data: dict[str, Any] = field(default_factory=dict[str, Any])


@runtime_checkable
class Accounts(Protocol):
    """Users, their tokens, failed logins and the audit of it."""

    async def add_user(self, row: UserRow, *, first: bool = False) -> None:
        """Insert an account.

        Args:
            row: the account.
            first: only while there is no admin, locked out or not, in one transaction.

        Raises:
            ConflictError: the id or the e-mail is taken, or `first` and an admin exists.
        """
        ...

    async def user(self, user_id: str) -> UserRow | None:
        """By id."""
        ...

    async def by_email(self, email: str) -> UserRow | None:
        """By e-mail, in any case."""
        ...

    async def users(self, *, limit: int = 1000, offset: int = 0) -> list[UserRow]:
        """Oldest first."""
        ...

    async def change_user(self, row: UserRow) -> None:
        """Replace an account by its id; an unknown one stays unknown.

        Raises:
            ConflictError: the e-mail is taken.
        """
        ...

    async def has_admin(self) -> bool:
        """Whether an active admin exists."""
        ...

    async def link(self, provider: str, subject: str, user_id: str) -> None:
        """Tie an identity of an OIDC provider to an account; the first tie counts."""
        ...

    async def linked(self, provider: str, subject: str) -> UserRow | None:
        """The account of an identity."""
        ...

    async def add_token(self, row: TokenRow) -> None:
        """Insert a token; some that had expired when it was made are cleared away.

        Raises:
            ConflictError: its id or hash exists.
        """
        ...

    async def token(self, hash: bytes, *, now: float) -> tuple[TokenRow, UserRow | None] | None:
        """An unexpired token with its active user (None for setup and login), by one query.

        None when there is no such token, or its account is locked or gone.
        """
        ...

    async def tokens(self, user_id: str, kind: TokenKind) -> list[TokenRow]:
        """A user's tokens of a kind, oldest first."""
        ...

    async def use_token(self, token_id: str, at: float) -> None:
        """Note when it was last used; callers do so at most once a minute."""
        ...

    async def take_token(self, hash: bytes, *, now: float) -> TokenRow | None:
        """Remove a token that works once, and hand it over to exactly one caller."""
        ...

    async def remove_tokens(
        self, user_id: str, *, kind: TokenKind | None = None, token_id: str | None = None
    ) -> int:
        """Remove a user's tokens; how many."""
        ...

    async def note_attempt(self, subject: str, at: float) -> None:
        """Enter a failed login of an address or account; old ones are cleared away."""
        ...

    async def attempts(self, subject: str, *, since: float) -> int:
        """Failed logins since then."""
        ...

    async def clear_attempts(self, subject: str) -> None:
        """Forget them after a success."""
        ...

    async def note(self, row: AuditRow) -> None:
        """Enter into the audit."""
        ...

    async def audit(self, *, user_id: str | None = None, limit: int = 100) -> list[AuditRow]:
        """Newest first."""
        ...


@dataclass(frozen=True, slots=True)
class FeedbackRow:
    """What somebody thinks of a run: rating -1 or 1, one per run and user."""

    feedback_id: str
    thread_key: str
    run_id: str
    user_id: str
    rating: int
    created_at: float
    data: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class AssistantRow:
    """A version of a user's assistant (LangGraph protocol). `data` is its JSON object."""

    user_id: str
    assistant_id: str
    version: int
    created_at: float
    data: dict[str, Any] = field(default_factory=dict[str, Any])


@runtime_checkable
class Documents(Protocol):
    """Small things that clients keep: preferences, feedback, assistants."""

    async def preference(self, user_id: str, name: str) -> Any:
        """A JSON value, None when unset."""
        ...

    async def preferences(self, user_id: str) -> dict[str, Any]:
        """All of a user's."""
        ...

    async def prefer(self, user_id: str, name: str, value: Any) -> None:
        """Set; None unsets."""
        ...

    async def put_feedback(self, row: FeedbackRow) -> FeedbackRow:
        """Insert, or replace rating and data of the user's feedback for this run."""
        ...

    async def feedback(self, thread_key: str, *, run_id: str | None = None) -> list[FeedbackRow]:
        """Of a thread or a run, oldest first."""
        ...

    async def remove_feedback(
        self, thread_key: str, run_id: str, user_id: str, feedback_id: str | None = None
    ) -> bool:
        """Remove the user's feedback of a run; False when there is none."""
        ...

    async def put_assistant(self, row: AssistantRow) -> None:
        """Insert a version. Raises ConflictError when it exists."""
        ...

    async def assistants(self, user_id: str) -> list[AssistantRow]:
        """The newest version of each; the assistant that was made first comes first."""
        ...

    async def assistant_versions(self, user_id: str, assistant_id: str) -> list[AssistantRow]:
        """All versions, newest first; empty when unknown."""
        ...

    async def remove_assistant(self, user_id: str, assistant_id: str) -> bool:
        """Remove all versions; False when unknown."""
        ...
