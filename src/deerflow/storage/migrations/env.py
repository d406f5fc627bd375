"""Alembic's entry: migrates the connection that `upgrade` hands over."""

from __future__ import annotations

from alembic import context

from deerflow.storage.sql import render

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=render.metadata,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
