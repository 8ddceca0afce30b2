"""The set-aside list knows why a rebuild could not count a version; tasks that are set aside have alerts.

Revision ID: 0037
Revises: 0036
"""

from __future__ import annotations

from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


TOLD = """
INSERT INTO alerts (source, name, message)
SELECT 'tasks', id || 'v' || version, 'task ' || name || ' (' || id || 'v' || version
    || ') is set aside and counts nothing: ' || coalesce(error, '') || '. All other tasks go on'
FROM tasks WHERE failed_at IS NOT NULL AND deleted_at IS NULL
"""


def upgrade() -> None:
    op.execute("ALTER TABLE recounts ADD COLUMN failed TEXT")
    op.execute(TOLD)


def downgrade() -> None:
    op.execute("DELETE FROM alerts WHERE source = 'tasks'")
    op.drop_column("recounts", "failed")
