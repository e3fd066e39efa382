"""Alembic's entry: runs on the connection that the catalog hands over, never on one of its own."""

from __future__ import annotations

from alembic import context

from taboot_pipelines.stores.catalog.schema import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection, target_metadata=metadata, render_as_batch=True, transaction_per_migration=False
)
with context.begin_transaction():
    context.run_migrations()
