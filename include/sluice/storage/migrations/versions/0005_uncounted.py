"""A table of the task versions that the batch layer could not count."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

#: Until now only the open alerts of the nights told this, in their names and messages.
_TOLD = r"""
INSERT INTO uncounted (topic, day, task_id, version, reason, since)
SELECT said[1], CAST(said[2] AS date), CAST(said[3] AS integer), CAST(said[4] AS integer),
       substr(message, length(name || ' could not be counted: ') + 1), raised_at
FROM (
    SELECT regexp_match(name, '^(.*) (\d{4}-\d\d-\d\d): task (\d+)v(\d+)$') AS said, name, message, raised_at
    FROM alerts
    WHERE source = 'nightly' AND cleared_at IS NULL
) AS open
WHERE said IS NOT NULL
"""


def upgrade() -> None:
    op.create_table(
        "uncounted",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("task_id", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("topic", "day", "task_id", "version"),
    )
    op.execute(_TOLD)


def downgrade() -> None:
    op.drop_table("uncounted")
