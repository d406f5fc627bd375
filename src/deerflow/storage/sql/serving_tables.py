"""The tables of what serves many users: workers, schedules, accounts, clients' documents."""

from __future__ import annotations

from sqlalchemy import Column, Float, Index, Integer, LargeBinary, Table, Text, UniqueConstraint

from deerflow.storage.sql.columns import ID, id_column, key_column, metadata, thread_column

workers = Table(
    "workers",
    metadata,
    key_column("worker_id", Text),
    Column("process", Text, nullable=False, comment="pid:starttime:bootid"),
    Column("started_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False, comment="by the clock of the database"),
    sqlite_with_rowid=False,
    comment="Who may write for the runs it owns; a row that is gone refuses late writers.",
)

deliveries = Table(
    "deliveries",
    metadata,
    id_column(),
    Column("delivery_id", Text, nullable=False),
    thread_column(),
    Column("user_id", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due_at", Float, nullable=False),
    Column("claimed_until", Float, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    UniqueConstraint("delivery_id"),
)
Index("ix_deliveries_thread", deliveries.c.thread)
Index("ix_deliveries_due", deliveries.c.status, deliveries.c.due_at)

schedules = Table(
    "schedules",
    metadata,
    id_column(),
    Column("schedule_id", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("thread_id", Text, comment="the client's id, null = a new thread each time"),
    Column("kind", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("next_at", Float),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    Column("data", LargeBinary, nullable=False),
    UniqueConstraint("schedule_id"),
)
Index("ix_schedules_user", schedules.c.user_id, schedules.c.created_at)
Index("ix_schedules_due", schedules.c.status, schedules.c.next_at)

schedule_runs = Table(
    "schedule_runs",
    metadata,
    id_column(),
    Column("schedule", ID, nullable=False),
    Column("occurrence", Float, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("thread_id", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("note", Text, nullable=False, comment="'' = to be started"),
    UniqueConstraint("schedule", "occurrence"),
)
Index("ix_schedule_runs_run_id", schedule_runs.c.run_id)
Index("ix_schedule_runs_note", schedule_runs.c.note)

users = Table(
    "users",
    metadata,
    id_column(),
    Column("user_id", Text, nullable=False),
    Column("email", Text, nullable=False, comment="lower case"),
    Column("password", Text, comment="argon2 hash, null = signs in elsewhere"),
    Column("role", Text, nullable=False),
    Column("active", Integer, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("data", LargeBinary, nullable=False),
    UniqueConstraint("user_id"),
    UniqueConstraint("email"),
)

identities = Table(
    "identities",
    metadata,
    key_column("provider", Text),
    key_column("subject", Text),
    Column("user_id", Text, nullable=False),
    Index("ix_identities_user_id", "user_id"),
    sqlite_with_rowid=False,
)

tokens = Table(
    "tokens",
    metadata,
    id_column(),
    Column("token_id", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("kind", Text, nullable=False, comment="session, api, setup or login"),
    Column("hash", LargeBinary, nullable=False, comment="sha256 of the secret"),
    Column("name", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("expires_at", Float),
    Column("used_at", Float),
    Column("data", LargeBinary, nullable=False),
    UniqueConstraint("token_id"),
    UniqueConstraint("hash"),
)
Index("ix_tokens_user", tokens.c.user_id, tokens.c.kind)

login_attempts = Table(
    "login_attempts",
    metadata,
    id_column(),
    Column("subject", Text, nullable=False, comment="an address or an account"),
    Column("at", Float, nullable=False),
)
Index("ix_login_attempts_subject", login_attempts.c.subject, login_attempts.c.at)

audit = Table(
    "audit",
    metadata,
    id_column(),
    Column("at", Float, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("data", LargeBinary, nullable=False),
)
Index("ix_audit_user", audit.c.user_id, audit.c.at)

preferences = Table(
    "preferences",
    metadata,
    key_column("user_id", Text),
    key_column("name", Text),
    Column("updated_at", Float, nullable=False),
    Column("data", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

feedback = Table(
    "feedback",
    metadata,
    id_column(),
    Column("feedback_id", Text, nullable=False),
    thread_column(),
    Column("run_id", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("rating", Integer, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("data", LargeBinary, nullable=False),
    UniqueConstraint("feedback_id"),
    UniqueConstraint("run_id", "user_id"),
)
Index("ix_feedback_thread", feedback.c.thread)

assistants = Table(
    "assistants",
    metadata,
    key_column("user_id", Text),
    key_column("assistant_id", Text),
    key_column("version", Integer),
    Column("created_at", Float, nullable=False),
    Column("data", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

items = Table(
    "items",
    metadata,
    key_column("user_id", Text),
    key_column("namespace", Text),
    key_column("key", Text),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    Column("expires_at", Float),
    Column("data", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
    comment="The store of the LangGraph protocol.",
)
