"""The layer that reads a topic's first line freezes the format of its lines."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

#: The topics with a line that either layer has read. A commit that only took up a task ends at offset 0.
_READ = """
INSERT INTO settled_topics (topic)
SELECT topic FROM archive_files
UNION
SELECT topic FROM commits, jsonb_each_text("end") AS reached(partition, next) WHERE reached.next::bigint > 0
"""


def upgrade() -> None:
    op.create_table(
        "settled_topics",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("settled_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("topic"),
    )
    op.execute(_READ)


def downgrade() -> None:
    op.drop_table("settled_topics")
