"""First schema: threads, runs, event log, deltas, journal, blobs and checkpoints."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create every table."""
    _threads()
    _log()
    _journal()
    _blobs()
    _checkpoints()


def downgrade() -> None:
    """Drop every table."""
    for table in TABLES:
        op.drop_table(table)


TABLES = (
    "checkpoint_writes",
    "checkpoint_values",
    "checkpoints",
    "blob_refs",
    "blobs",
    "model_calls",
    "tool_calls",
    "run_deltas",
    "run_events",
    "runs",
    "threads",
    "thread_keys",
)


def _threads() -> None:
    op.create_table(
        "thread_keys",
        sa.Column("id", ID, nullable=False),
        sa.Column("thread_key", sa.Text(), nullable=False),
        sa.Column("last_seq", sa.Integer(), nullable=False),
        sa.Column("retired_at", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_thread_keys")),
        sa.UniqueConstraint("thread_key", name=op.f("uq_thread_keys_thread_key")),
        comment="Every internal key ever used; a retired one refuses late writers.",
    )
    op.create_table(
        "threads",
        sa.Column("id", ID, nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("thread_id", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("updated_at", sa.Float(), nullable=False),
        sa.Column("metadata", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["id"], ["thread_keys.id"], name=op.f("fk_threads_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_threads")),
        sa.UniqueConstraint("user_id", "thread_id", name=op.f("uq_threads_user_id_thread_id")),
    )
    op.create_index("ix_threads_newest", "threads", ["user_id", "updated_at"], unique=False)
    op.create_table(
        "runs",
        sa.Column("id", ID, nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("thread", ID, nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=True),
        sa.Column("ended_at", sa.Float(), nullable=True),
        sa.Column("input", sa.LargeBinary(), nullable=False),
        sa.Column("config", sa.LargeBinary(), nullable=False),
        sa.Column("outcome", sa.LargeBinary(), nullable=True),
        sa.Column("error", sa.LargeBinary(), nullable=True),
        sa.Column("usage", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
        sa.UniqueConstraint("run_id", name=op.f("uq_runs_run_id")),
    )
    op.create_index("ix_runs_thread", "runs", ["thread"], unique=False)


def _log() -> None:
    op.create_table(
        "run_events",
        sa.Column("thread", ID, autoincrement=False, nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("thread", "seq", name=op.f("pk_run_events")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "run_deltas",
        sa.Column("id", ID, nullable=False),
        sa.Column("thread", ID, nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("start", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run_deltas")),
        sa.UniqueConstraint(
            "run_id", "message_id", "start", name=op.f("uq_run_deltas_run_id_message_id_start")
        ),
    )


def _journal() -> None:
    op.create_table(
        "tool_calls",
        sa.Column("thread", ID, autoincrement=False, nullable=False),
        sa.Column("call", sa.LargeBinary(), autoincrement=False, nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("started", sa.Integer(), nullable=False),
        sa.Column("result", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("thread", "call", name=op.f("pk_tool_calls")),
        comment="call = first 16 bytes of the sha256 of the key",
        sqlite_with_rowid=False,
    )
    op.create_table(
        "model_calls",
        sa.Column("thread", ID, autoincrement=False, nullable=False),
        sa.Column("call", sa.LargeBinary(), autoincrement=False, nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("reply", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("thread", "call", name=op.f("pk_model_calls")),
        comment="call = first 16 bytes of the sha256 of the key",
        sqlite_with_rowid=False,
    )


def _blobs() -> None:
    op.create_table(
        "blobs",
        sa.Column("id", ID, nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("sha256", sa.LargeBinary(), nullable=False),
        sa.Column("media_type", sa.Text(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_blobs")),
        sa.UniqueConstraint("user_id", "sha256", name=op.f("uq_blobs_user_id_sha256")),
    )
    op.create_table(
        "blob_refs",
        sa.Column("thread", ID, autoincrement=False, nullable=False),
        sa.Column("blob", ID, autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("thread", "blob", name=op.f("pk_blob_refs")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_blob_refs_blob", "blob_refs", ["blob"], unique=False)


def _checkpoints() -> None:
    op.create_table(
        "checkpoints",
        sa.Column("thread", ID, autoincrement=False, nullable=False),
        sa.Column("ns", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("checkpoint_id", sa.LargeBinary(), autoincrement=False, nullable=False),
        sa.Column("parent", sa.LargeBinary(), nullable=True, comment="checkpoint_id"),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("thread", "ns", "checkpoint_id", name=op.f("pk_checkpoints")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "checkpoint_values",
        sa.Column("id", ID, nullable=False),
        sa.Column("thread", ID, nullable=False),
        sa.Column("ns", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("checkpoint_id", sa.LargeBinary(), nullable=False),
        sa.Column(
            "thin", sa.Integer(), nullable=False, comment="ordinal of a droppable snapshot, or 0"
        ),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_checkpoint_values")),
        sa.UniqueConstraint(
            "thread",
            "ns",
            "channel",
            "checkpoint_id",
            name=op.f("uq_checkpoint_values_thread_ns_channel_checkpoint_id"),
        ),
    )
    op.create_table(
        "checkpoint_writes",
        sa.Column("thread", ID, autoincrement=False, nullable=False),
        sa.Column("ns", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("checkpoint_id", sa.LargeBinary(), autoincrement=False, nullable=False),
        sa.Column("task", sa.LargeBinary(), autoincrement=False, nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint(
            "thread", "ns", "checkpoint_id", "task", name=op.f("pk_checkpoint_writes")
        ),
        sqlite_with_rowid=False,
    )
