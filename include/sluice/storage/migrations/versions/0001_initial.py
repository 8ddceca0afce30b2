"""The platform's tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _make_alerts()
    _make_archive()
    _make_commits()
    _make_days()
    _make_ledger_and_state()
    _make_tasks()


def _make_alerts() -> None:
    op.create_table(
        "alerts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("raised_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("cleared_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "alerts_open",
        "alerts",
        ["source", "name"],
        unique=True,
        postgresql_where=sa.text("cleared_at IS NULL"),
    )


def _make_archive() -> None:
    op.create_table(
        "archive_files",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("topic_id", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=False),
        sa.Column("next", sa.BigInteger(), nullable=False),
        sa.Column("records", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("arrival_min", sa.BigInteger(), nullable=False),
        sa.Column("arrival_max", sa.BigInteger(), nullable=False),
        sa.Column("days", JSONB(), nullable=False),
        sa.Column("unparsed", sa.BigInteger(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("topic", "topic_id", "partition", "first"),
    )
    op.create_table(
        "archive_losses",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("topic_id", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=False),
        sa.Column("next", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("recorded_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("topic", "topic_id", "partition", "first"),
    )


def _make_commits() -> None:
    op.create_table(
        "commits",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("token", sa.Text(), nullable=False),
        sa.Column("topic_id", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "committed_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.Column("start", JSONB(), nullable=False),
        sa.Column("end", JSONB(), nullable=False),
        sa.Column("tasks", JSONB(), nullable=False),
        sa.Column("counts", JSONB(), nullable=False),
        sa.Column("blocks", JSONB(), nullable=False),
        sa.PrimaryKeyConstraint("topic", "seq"),
    )
    op.create_table(
        "projections",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("topic"),
    )
    op.create_table(
        "dead_letters",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("src_file", sa.Text(), nullable=True),
        sa.Column("src_offset", sa.BigInteger(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("line", sa.LargeBinary(), nullable=False),
        sa.Column("arrived_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("topic", "partition", "offset"),
    )


def _make_days() -> None:
    op.create_table(
        "days",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("cut", JSONB(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("tasks_seq", sa.BigInteger(), nullable=False),
        sa.Column("computed_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("raw_lines", sa.BigInteger(), nullable=False),
        sa.Column("lines", sa.BigInteger(), nullable=False),
        sa.Column("published_cut", JSONB(), nullable=True),
        sa.Column("published_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("topic", "day"),
    )
    op.create_table(
        "event_days",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("lines", sa.BigInteger(), nullable=False),
        sa.Column("last_offset", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("topic", "day", "partition"),
    )


def _make_ledger_and_state() -> None:
    op.create_table(
        "ledger",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("src_file", sa.Text(), nullable=False),
        sa.Column("starts", sa.LargeBinary(), nullable=False),
        sa.Column("ends", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("topic", "host", "src_file"),
    )
    op.create_table(
        "state_blocks",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("row", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("period_start", sa.BigInteger(), nullable=False),
        sa.Column("layout", sa.Integer(), nullable=False),
        sa.Column("bucket", sa.Integer(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("token", sa.Text(), nullable=False),
        sa.Column("bytes", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("topic", "row"),
    )
    op.create_index(
        "state_blocks_period", "state_blocks", ["task_id", "version", "period_start"], unique=False
    )


def _make_tasks() -> None:
    op.create_table(
        "task_ranges",
        sa.Column("task_id", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("first_seq", sa.BigInteger(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("start", JSONB(), nullable=False),
        sa.Column("end", JSONB(), nullable=True),
        sa.PrimaryKeyConstraint("task_id", "version", "first_seq"),
    )
    op.create_table(
        "tasks",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("enabled", sa.Boolean(), server_default="true", nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "tasks_name", "tasks", ["name"], unique=True, postgresql_where=sa.text("deleted_at IS NULL")
    )
    op.create_table(
        "task_versions",
        sa.Column("task_id", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("spec", JSONB(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"]),
        sa.PrimaryKeyConstraint("task_id", "version"),
    )


def downgrade() -> None:
    op.drop_table("task_versions")
    op.drop_index("tasks_name", table_name="tasks", postgresql_where=sa.text("deleted_at IS NULL"))
    op.drop_table("tasks")
    op.drop_table("task_ranges")
    op.drop_index("state_blocks_period", table_name="state_blocks")
    op.drop_table("state_blocks")
    op.drop_table("projections")
    op.drop_table("ledger")
    op.drop_table("event_days")
    op.drop_table("dead_letters")
    op.drop_table("days")
    op.drop_table("commits")
    op.drop_table("archive_losses")
    op.drop_table("archive_files")
    op.drop_index("alerts_open", table_name="alerts", postgresql_where=sa.text("cleared_at IS NULL"))
    op.drop_table("alerts")
