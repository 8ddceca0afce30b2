"""Task ranges are found by the commit that began them, and those that are open at once"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("task_ranges_begun", "task_ranges", ["topic", "first_seq"], unique=False)
    op.create_index(
        "task_ranges_open",
        "task_ranges",
        ["topic", "task_id", "version"],
        unique=False,
        postgresql_where=sa.text('"end" IS NULL'),
    )


def downgrade() -> None:
    op.drop_index("task_ranges_open", table_name="task_ranges", postgresql_where=sa.text('"end" IS NULL'))
    op.drop_index("task_ranges_begun", table_name="task_ranges")
