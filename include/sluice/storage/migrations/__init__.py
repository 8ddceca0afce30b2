"""The migrations of the database's schema, which Alembic runs."""

from __future__ import annotations

from pathlib import Path

VERSIONS = Path(__file__).parent / "versions"


def newest() -> str:
    """The revision that the newest one leads to, by the names of the files: Alembic is slow to import."""
    return max(path.name.partition("_")[0] for path in VERSIONS.glob("[0-9]*.py"))
