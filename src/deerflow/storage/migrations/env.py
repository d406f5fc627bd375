"""Alembic's entry: migrates the connection that `upgrade` hands over."""

from __future__ import annotations

from alembic import context

from deerflow.storage.sql.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
