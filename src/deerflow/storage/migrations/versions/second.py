"""Approvals, batches with their items, queued memories and spending."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the tables."""
    _approvals()
    _batches()
    _memory_queue()
    _spending()


def downgrade() -> None:
    """Drop the tables."""
    for table in ("spending", "memory_queue", "batch_items", "batches", "approvals"):
        op.drop_table(table)


def _approvals() -> None:
    op.create_table(
        "approvals",
        sa.Column("id", ID, nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("approval_id", sa.Text(), nullable=False),
        sa.Column("thread", ID, nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("expires_at", sa.Float(), nullable=True),
        sa.Column("decided_at", sa.Float(), nullable=True),
        sa.Column("call", sa.LargeBinary(), nullable=False),
        sa.Column("decision", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_approvals")),
        sa.UniqueConstraint(
            "user_id", "approval_id", name=op.f("uq_approvals_user_id_approval_id")
        ),
    )
    op.create_index("ix_approvals_thread", "approvals", ["thread"], unique=False)
    op.create_index(
        "ix_approvals_listed", "approvals", ["user_id", "status", "created_at"], unique=False
    )
    op.create_index("ix_approvals_expiry", "approvals", ["status", "expires_at"], unique=False)


def _batches() -> None:
    op.create_table(
        "batches",
        sa.Column("id", ID, nullable=False),
        sa.Column("batch_id", sa.Text(), nullable=False),
        sa.Column("thread", ID, nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("settings", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_batches")),
        sa.UniqueConstraint("batch_id", name=op.f("uq_batches_batch_id")),
    )
    op.create_index("ix_batches_thread", "batches", ["thread"], unique=False)
    op.create_table(
        "batch_items",
        sa.Column("id", ID, nullable=False),
        sa.Column("batch", ID, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("item", sa.LargeBinary(), nullable=False),
        sa.Column("result", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_batch_items")),
        sa.UniqueConstraint("batch", "position", name=op.f("uq_batch_items_batch_position")),
    )
    op.create_index(
        "ix_batch_items_claim", "batch_items", ["batch", "status", "position"], unique=False
    )


def _memory_queue() -> None:
    op.create_table(
        "memory_queue",
        sa.Column("id", ID, nullable=False),
        sa.Column("entry_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("thread", ID, nullable=False),
        sa.Column("thread_id", sa.Text(), nullable=False),
        sa.Column("queued_at", sa.Float(), nullable=False),
        sa.Column("due_at", sa.Float(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column(
            "owner", sa.Text(), nullable=False, comment="who has claimed it, empty when nobody"
        ),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_memory_queue")),
        sa.UniqueConstraint("entry_id", name=op.f("uq_memory_queue_entry_id")),
    )
    op.create_index("ix_memory_queue_thread", "memory_queue", ["thread"], unique=False)
    op.create_index("ix_memory_queue_due", "memory_queue", ["owner", "due_at"], unique=False)
    op.create_index("ix_memory_queue_user", "memory_queue", ["user_id", "owner"], unique=False)


def _spending() -> None:
    op.create_table(
        "spending",
        sa.Column("user_id", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("day", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("currency", sa.Text(), autoincrement=False, nullable=False),
        sa.Column(
            "tokens", sa.BigInteger(), nullable=False, comment="on the row without a currency"
        ),
        sa.Column("money", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "day", "currency", name=op.f("pk_spending")),
        sqlite_with_rowid=False,
    )
