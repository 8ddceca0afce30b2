"""A history of tasks, tasks that are set aside, value lists and topics."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def _now(name: str) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False)


def upgrade() -> None:
    op.add_column("tasks", sa.Column("failed_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("tasks", sa.Column("error", sa.Text(), nullable=True))
    op.add_column("task_versions", sa.Column("sets", JSONB(), server_default="{}", nullable=False))
    op.create_table(
        "task_changes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("task_id", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        _now("at"),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), server_default="", nullable=False),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("task_changes_task", "task_changes", ["task_id", "id"], unique=False)
    # For versions that were made before there was a history, record what is known about them.
    op.execute(
        "INSERT INTO task_changes (task_id, version, action, at, by) "
        "SELECT task_id, version, CASE version WHEN 1 THEN 'created' ELSE 'changed' END, created_at, "
        "created_by "
        "FROM task_versions ORDER BY created_at, task_id, version"
    )
    op.create_table(
        "value_lists",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("values", JSONB(), nullable=False),
        _now("created_at"),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("name", "version"),
    )
    op.create_table(
        "topics",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("spec", JSONB(), nullable=False),
        _now("created_at"),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )


def downgrade() -> None:
    op.drop_table("topics")
    op.drop_table("value_lists")
    op.drop_index("task_changes_task", table_name="task_changes")
    op.drop_table("task_changes")
    op.drop_column("task_versions", "sets")
    op.drop_column("tasks", "error")
    op.drop_column("tasks", "failed_at")
