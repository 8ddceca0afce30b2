"""Filling a task backwards, and retention."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

NOW = sa.text("now()")


def upgrade() -> None:
    _make_backfills()
    _make_backfill_blocks()
    _make_retention()


def _make_backfills() -> None:
    op.create_table(
        "backfills",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("task_id", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("first_day", sa.Date(), nullable=False),
        sa.Column("last_day", sa.Date(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("done_days", sa.Integer(), server_default="0", nullable=False),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column("requested_at", sa.DateTime(timezone=True), server_default=NOW, nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("backfills_version", "backfills", ["task_id", "version"])
    op.create_table(
        "backfill_days",
        sa.Column("task_id", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("backfill_id", sa.Integer(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("lines", sa.BigInteger(), nullable=False),
        sa.Column("projected", sa.Boolean(), nullable=False),
        sa.Column("computed_at", sa.DateTime(timezone=True), server_default=NOW, nullable=False),
        sa.PrimaryKeyConstraint("task_id", "version", "day"),
    )
    op.create_index("backfill_days_topic", "backfill_days", ["topic", "day"])


def _make_backfill_blocks() -> None:
    op.create_table(
        "backfill_blocks",
        sa.Column("row", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("period_start", sa.BigInteger(), nullable=False),
        sa.Column("layout", sa.Integer(), nullable=False),
        sa.Column("bucket", sa.Integer(), nullable=False),
        sa.Column("column", sa.Text(), nullable=False),
        sa.Column("bytes", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("row"),
    )
    op.create_index("backfill_blocks_period", "backfill_blocks", ["task_id", "version", "period_start"])
    op.create_index("backfill_blocks_day", "backfill_blocks", ["task_id", "version", "day"])
    op.create_table(
        "backfill_revisions",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("topic"),
    )
    op.add_column("days", sa.Column("backfills", sa.BigInteger(), server_default="0", nullable=False))


def _make_retention() -> None:
    op.add_column(
        "ledger",
        sa.Column("last_seen", sa.DateTime(timezone=True), server_default=NOW, nullable=False),
    )
    op.create_table(
        "dropped_days",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("dropped_at", sa.DateTime(timezone=True), server_default=NOW, nullable=False),
        sa.PrimaryKeyConstraint("topic", "day"),
    )
    sums = ("seq", "records", "doubled", "counted", "dead", "dead_letters", "files")
    op.create_table(
        "pruned",
        sa.Column("topic", sa.Text(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in sums),
        sa.PrimaryKeyConstraint("topic"),
    )


def downgrade() -> None:
    op.drop_table("pruned")
    op.drop_table("dropped_days")
    op.drop_column("ledger", "last_seen")
    op.drop_column("days", "backfills")
    op.drop_table("backfill_revisions")
    op.drop_index("backfill_blocks_day", table_name="backfill_blocks")
    op.drop_index("backfill_blocks_period", table_name="backfill_blocks")
    op.drop_table("backfill_blocks")
    op.drop_index("backfill_days_topic", table_name="backfill_days")
    op.drop_table("backfill_days")
    op.drop_index("backfills_version", table_name="backfills")
    op.drop_table("backfills")
