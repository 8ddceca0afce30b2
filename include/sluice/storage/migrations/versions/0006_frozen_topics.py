"""Calls a topic frozen, everywhere, once a layer has begun to read its lines."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.rename_table("settled_topics", "frozen_topics")
    op.alter_column("frozen_topics", "settled_at", new_column_name="frozen_at")


def downgrade() -> None:
    op.alter_column("frozen_topics", "frozen_at", new_column_name="settled_at")
    op.rename_table("frozen_topics", "settled_topics")
