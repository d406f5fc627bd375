"""Workers, schedules, accounts and clients' documents; runs that wait for a worker."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
COLUMNS = ("metadata", "not_before", "cancel", "attempt", "priority", "idempotency")
TABLES = (
    "assistants",
    "audit",
    "deliveries",
    "feedback",
    "identities",
    "items",
    "login_attempts",
    "preferences",
    "schedule_runs",
    "schedules",
    "tokens",
    "users",
    "workers",
)


def upgrade() -> None:
    """Create the tables, add the columns."""
    _assistants()
    _audit()
    _deliveries()
    _feedback()
    _identities()
    _items()
    _login_attempts()
    _preferences()
    _schedule_runs()
    _schedules()
    _tokens()
    _users()
    _workers()
    _runs_columns()


def downgrade() -> None:
    """Drop them."""
    for table in TABLES:
        op.drop_table(table)
    op.drop_index("ix_runs_idempotency", "runs")
    op.drop_index("ix_runs_status", "runs")
    op.drop_index("ix_runs_rollback", "runs")
    with op.batch_alter_table("runs") as batch:
        for column in COLUMNS:
            batch.drop_column(column)


def _assistants() -> None:
    op.create_table(
        "assistants",
        sa.Column("user_id", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("assistant_id", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "assistant_id", "version", name=op.f("pk_assistants")),
        sqlite_with_rowid=False,
    )


def _audit() -> None:
    op.create_table(
        "audit",
        sa.Column("id", ID, nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index("ix_audit_user", "audit", ["user_id", "at"], unique=False)


def _deliveries() -> None:
    op.create_table(
        "deliveries",
        sa.Column("id", ID, nullable=False),
        sa.Column("delivery_id", sa.Text(), nullable=False),
        sa.Column("thread", ID, nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.Float(), nullable=False),
        sa.Column("claimed_until", sa.Float(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deliveries")),
        sa.UniqueConstraint("delivery_id", name=op.f("uq_deliveries_delivery_id")),
    )
    op.create_index("ix_deliveries_due", "deliveries", ["status", "due_at"], unique=False)
    op.create_index("ix_deliveries_thread", "deliveries", ["thread"], unique=False)


def _feedback() -> None:
    op.create_table(
        "feedback",
        sa.Column("id", ID, nullable=False),
        sa.Column("feedback_id", sa.Text(), nullable=False),
        sa.Column("thread", ID, nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("rating", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_feedback")),
        sa.UniqueConstraint("feedback_id", name=op.f("uq_feedback_feedback_id")),
        sa.UniqueConstraint("run_id", "user_id", name=op.f("uq_feedback_run_id_user_id")),
    )
    op.create_index("ix_feedback_thread", "feedback", ["thread"], unique=False)


def _identities() -> None:
    op.create_table(
        "identities",
        sa.Column("provider", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("subject", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("provider", "subject", name=op.f("pk_identities")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_identities_user_id", "identities", ["user_id"], unique=False)


def _items() -> None:
    op.create_table(
        "items",
        sa.Column("user_id", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("namespace", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("key", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("updated_at", sa.Float(), nullable=False),
        sa.Column("expires_at", sa.Float(), nullable=True),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "namespace", "key", name=op.f("pk_items")),
        comment="The store of the LangGraph protocol.",
        sqlite_with_rowid=False,
    )


def _login_attempts() -> None:
    op.create_table(
        "login_attempts",
        sa.Column("id", ID, nullable=False),
        sa.Column("subject", sa.Text(), nullable=False, comment="an address or an account"),
        sa.Column("at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_login_attempts")),
    )
    op.create_index("ix_login_attempts_subject", "login_attempts", ["subject", "at"], unique=False)


def _preferences() -> None:
    op.create_table(
        "preferences",
        sa.Column("user_id", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("updated_at", sa.Float(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "name", name=op.f("pk_preferences")),
        sqlite_with_rowid=False,
    )


def _schedule_runs() -> None:
    op.create_table(
        "schedule_runs",
        sa.Column("id", ID, nullable=False),
        sa.Column("schedule", ID, nullable=False),
        sa.Column("occurrence", sa.Float(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("thread_id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False, comment="'' = to be started"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schedule_runs")),
        sa.UniqueConstraint(
            "schedule", "occurrence", name=op.f("uq_schedule_runs_schedule_occurrence")
        ),
    )
    op.create_index("ix_schedule_runs_note", "schedule_runs", ["note"], unique=False)
    op.create_index("ix_schedule_runs_run_id", "schedule_runs", ["run_id"], unique=False)


def _schedules() -> None:
    op.create_table(
        "schedules",
        sa.Column("id", ID, nullable=False),
        sa.Column("schedule_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column(
            "thread_id",
            sa.Text(),
            nullable=True,
            comment="the client's id, null = a new thread each time",
        ),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("next_at", sa.Float(), nullable=True),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("updated_at", sa.Float(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schedules")),
        sa.UniqueConstraint("schedule_id", name=op.f("uq_schedules_schedule_id")),
    )
    op.create_index("ix_schedules_due", "schedules", ["status", "next_at"], unique=False)
    op.create_index("ix_schedules_user", "schedules", ["user_id", "created_at"], unique=False)


def _tokens() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", ID, nullable=False),
        sa.Column("token_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False, comment="session, api, setup or login"),
        sa.Column("hash", sa.LargeBinary(), nullable=False, comment="sha256 of the secret"),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("expires_at", sa.Float(), nullable=True),
        sa.Column("used_at", sa.Float(), nullable=True),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("hash", name=op.f("uq_tokens_hash")),
        sa.UniqueConstraint("token_id", name=op.f("uq_tokens_token_id")),
    )
    op.create_index("ix_tokens_user", "tokens", ["user_id", "kind"], unique=False)


def _users() -> None:
    op.create_table(
        "users",
        sa.Column("id", ID, nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("email", sa.Text(), nullable=False, comment="lower case"),
        sa.Column(
            "password", sa.Text(), nullable=True, comment="argon2 hash, null = signs in elsewhere"
        ),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("active", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("email", name=op.f("uq_users_email")),
        sa.UniqueConstraint("user_id", name=op.f("uq_users_user_id")),
    )


def _workers() -> None:
    op.create_table(
        "workers",
        sa.Column("worker_id", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("process", sa.Text(), nullable=False, comment="pid:starttime:bootid"),
        sa.Column("started_at", sa.Float(), nullable=False),
        sa.Column("expires_at", sa.Float(), nullable=False, comment="by the clock of the database"),
        sa.PrimaryKeyConstraint("worker_id", name=op.f("pk_workers")),
        comment="Who may write for the runs it owns; a row that is gone refuses late writers.",
        sqlite_with_rowid=False,
    )


def _runs_columns() -> None:
    op.add_column("runs", sa.Column("metadata", sa.LargeBinary(), nullable=True))
    op.add_column("runs", sa.Column("not_before", sa.Float(), nullable=True))
    op.add_column("runs", sa.Column("cancel", sa.Text(), server_default="", nullable=False))
    op.add_column("runs", sa.Column("attempt", sa.Integer(), server_default="0", nullable=False))
    op.add_column("runs", sa.Column("priority", sa.Integer(), server_default="0", nullable=False))
    op.add_column(
        "runs", sa.Column("idempotency", sa.Text(), nullable=True, comment="sha256 of user and key")
    )
    op.create_index("ix_runs_idempotency", "runs", ["idempotency"], unique=True)
    op.create_index("ix_runs_status", "runs", ["status"], unique=False)
    rollback = sa.text("cancel = 'rollback'")
    op.create_index(
        "ix_runs_rollback",
        "runs",
        ["cancel"],
        unique=False,
        sqlite_where=rollback,
        postgresql_where=rollback,
    )
