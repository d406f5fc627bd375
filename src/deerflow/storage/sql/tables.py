"""The tables of threads and runs in SQLAlchemy: what Alembic compares; see `render`."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
)

from deerflow.storage.sql.columns import ID, id_column, key_column, metadata, thread_column

thread_keys = Table(
    "thread_keys",
    metadata,
    id_column(),
    Column("thread_key", Text, nullable=False),
    Column("last_seq", Integer, nullable=False),
    Column("retired_at", Float),
    UniqueConstraint("thread_key"),
    comment="Every internal key ever used; a retired one refuses late writers.",
)

threads = Table(
    "threads",
    metadata,
    Column("id", ID, ForeignKey("thread_keys.id"), primary_key=True),
    Column("user_id", Text, nullable=False),
    Column("thread_id", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    Column("metadata", Text, nullable=False),
    UniqueConstraint("user_id", "thread_id"),
)
Index("ix_threads_newest", threads.c.user_id, threads.c.updated_at)

runs = Table(
    "runs",
    metadata,
    id_column(),
    Column("run_id", Text, nullable=False),
    thread_column(),
    Column("status", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("started_at", Float),
    Column("ended_at", Float),
    Column("input", LargeBinary, nullable=False),
    Column("config", LargeBinary, nullable=False),
    Column("outcome", LargeBinary),
    Column("error", LargeBinary),
    Column("usage", LargeBinary),
    Column("metadata", LargeBinary),
    Column("not_before", Float),
    Column("cancel", Text, nullable=False, server_default=""),
    Column("attempt", Integer, nullable=False, server_default="0"),
    Column("priority", Integer, nullable=False, server_default="0"),
    Column("idempotency", Text, comment="sha256 of user and key"),
    UniqueConstraint("run_id"),
)
Index("ix_runs_thread", runs.c.thread)
Index("ix_runs_status", runs.c.status)
_ROLLBACK = runs.c.cancel == "rollback"
Index(
    "ix_runs_rollback", runs.c.cancel, sqlite_where=_ROLLBACK, postgresql_where=_ROLLBACK
)  # next to none of all runs
Index("ix_runs_idempotency", runs.c.idempotency, unique=True)

run_events = Table(
    "run_events",
    metadata,
    key_column("thread", ID),
    key_column("seq", Integer),
    Column("run_id", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

run_deltas = Table(
    "run_deltas",
    metadata,
    id_column(),
    thread_column(),
    Column("run_id", Text, nullable=False),
    Column("message_id", Text, nullable=False),
    Column("start", Integer, nullable=False),
    Column("text", Text, nullable=False),
    UniqueConstraint("run_id", "message_id", "start"),
)

tool_calls = Table(
    "tool_calls",
    metadata,
    key_column("thread", ID),
    key_column("call", LargeBinary),
    Column("run_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("started", Integer, nullable=False),
    Column("result", LargeBinary),
    sqlite_with_rowid=False,
    comment="call = first 16 bytes of the sha256 of the key",
)

model_calls = Table(
    "model_calls",
    metadata,
    key_column("thread", ID),
    key_column("call", LargeBinary),
    Column("run_id", Text, nullable=False),
    Column("reply", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
    comment="call = first 16 bytes of the sha256 of the key",
)

blobs = Table(
    "blobs",
    metadata,
    id_column(),
    Column("user_id", Text, nullable=False),
    Column("sha256", LargeBinary, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("data", LargeBinary, nullable=False),
    UniqueConstraint("user_id", "sha256"),
)

blob_refs = Table(
    "blob_refs",
    metadata,
    key_column("thread", ID),
    key_column("blob", ID),
    Index("ix_blob_refs_blob", "blob"),
    sqlite_with_rowid=False,
)

checkpoints = Table(
    "checkpoints",
    metadata,
    key_column("thread", ID),
    key_column("ns", Text),
    key_column("checkpoint_id", LargeBinary),
    Column("parent", LargeBinary, comment="checkpoint_id"),
    Column("run_id", Text),
    Column("data", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

checkpoint_values = Table(
    "checkpoint_values",
    metadata,
    id_column(),
    thread_column(),
    Column("ns", Text, nullable=False),
    Column("channel", Text, nullable=False),
    Column("checkpoint_id", LargeBinary, nullable=False),
    Column("thin", Integer, nullable=False, comment="ordinal of a droppable snapshot, or 0"),
    Column("data", LargeBinary, nullable=False),
    UniqueConstraint("thread", "ns", "channel", "checkpoint_id"),
)

checkpoint_writes = Table(
    "checkpoint_writes",
    metadata,
    key_column("thread", ID),
    key_column("ns", Text),
    key_column("checkpoint_id", LargeBinary),
    key_column("task", LargeBinary),
    Column("path", Text, nullable=False),
    Column("data", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)


approvals = Table(
    "approvals",
    metadata,
    id_column(),
    Column("user_id", Text, nullable=False),
    Column("approval_id", Text, nullable=False),
    thread_column(),
    Column("status", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("expires_at", Float),
    Column("decided_at", Float),
    Column("call", LargeBinary, nullable=False),
    Column("decision", LargeBinary),
    UniqueConstraint("user_id", "approval_id"),
)
Index("ix_approvals_thread", approvals.c.thread)
Index("ix_approvals_listed", approvals.c.user_id, approvals.c.status, approvals.c.created_at)
Index("ix_approvals_expiry", approvals.c.status, approvals.c.expires_at)

batches = Table(
    "batches",
    metadata,
    id_column(),
    Column("batch_id", Text, nullable=False),
    thread_column(),
    Column("user_id", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("total", Integer, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("settings", LargeBinary, nullable=False),
    UniqueConstraint("batch_id"),
)
Index("ix_batches_thread", batches.c.thread)

batch_items = Table(
    "batch_items",
    metadata,
    id_column(),
    Column("batch", ID, nullable=False),
    Column("position", Integer, nullable=False),
    Column("status", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("owner", Text, nullable=False),
    Column("item", LargeBinary, nullable=False),
    Column("result", LargeBinary),
    UniqueConstraint("batch", "position"),
)
Index("ix_batch_items_claim", batch_items.c.batch, batch_items.c.status, batch_items.c.position)

memory_queue = Table(
    "memory_queue",
    metadata,
    id_column(),
    Column("entry_id", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    thread_column(),
    Column("thread_id", Text, nullable=False),
    Column("queued_at", Float, nullable=False),
    Column("due_at", Float, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("owner", Text, nullable=False, comment="who has claimed it, empty when nobody"),
    Column("payload", LargeBinary, nullable=False),
    UniqueConstraint("entry_id"),
)
Index("ix_memory_queue_thread", memory_queue.c.thread)
Index("ix_memory_queue_due", memory_queue.c.owner, memory_queue.c.due_at)
Index("ix_memory_queue_user", memory_queue.c.user_id, memory_queue.c.owner)

spending = Table(
    "spending",
    metadata,
    key_column("user_id", Text),
    key_column("day", Text),
    key_column("currency", Text),
    Column("tokens", BigInteger, nullable=False, comment="on the row without a currency"),
    Column("money", Float, nullable=False),
    sqlite_with_rowid=False,
)
