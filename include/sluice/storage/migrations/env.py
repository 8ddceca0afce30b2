"""Connects Alembic to the database by the caller's connection, else by the instance's own."""

from __future__ import annotations

from alembic import context

from sluice.runtime.settings import get_settings
from sluice.storage.postgres import engine
from sluice.storage.tables.schema import metadata


def run(connection: object) -> None:
    context.configure(connection=connection, target_metadata=metadata, compare_type=True)  # type: ignore[arg-type]
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    with engine(get_settings()).begin() as own:
        run(own)
