"""Blocks of state are committed by epochs instead of pointers"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

# Each writer's run of commits is an epoch. Retention has deleted commits, so not every number's token is
# known: between those that are, no column is readable, because no pointer named one. Their epochs have no
# token.
EPOCHS = """
WITH known AS (
    SELECT topic, seq, token FROM commits UNION SELECT topic, seq, token FROM state_blocks
), runs AS (
    SELECT topic, seq, token,
        lag(seq) OVER whole AS before, lag(token) OVER whole AS token_before, lead(seq) OVER whole AS after
    FROM known WINDOW whole AS (PARTITION BY topic ORDER BY seq)
)
INSERT INTO epochs (topic, first_seq, token)
SELECT topic, seq, token FROM runs
WHERE before IS NULL OR before < seq - 1 OR token_before <> token
UNION ALL
SELECT topic, seq + 1, '' FROM runs WHERE after > seq + 1
"""

# A row of a block that was dropped may still have columns; all of them are older than the pointers that stay.
PERIODS = """
INSERT INTO state_periods (topic, task_id, version, period_start, layout, since, seq, bytes)
SELECT topic, task_id, version, period_start, max(layout), min(seq), max(seq), sum(bytes)
FROM state_blocks GROUP BY topic, task_id, version, period_start
"""


def upgrade() -> None:
    op.create_table(
        "epochs",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("first_seq", sa.BigInteger(), nullable=False),
        sa.Column("token", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("topic", "first_seq"),
    )
    op.create_table(
        "state_periods",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("period_start", sa.BigInteger(), nullable=False),
        sa.Column("layout", sa.Integer(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("topic", "task_id", "version", "period_start"),
    )
    op.create_index("state_periods_seq", "state_periods", ["topic", "seq"], unique=False)
    op.execute(EPOCHS)
    op.execute(PERIODS)
    op.drop_table("state_blocks")
    op.drop_column("commits", "blocks")


def downgrade() -> None:
    if op.get_bind().scalar(sa.text("SELECT count(*) FROM state_periods")):
        raise RuntimeError(
            "state that was committed by epochs has no pointers, so it cannot go back to them: keep this "
            "release, or count the topics again from a new database"
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
    empty = postgresql.JSONB(astext_type=sa.Text())
    op.add_column("commits", sa.Column("blocks", empty, nullable=False, server_default="[]"))
    op.alter_column("commits", "blocks", server_default=None)
    op.drop_index("state_periods_seq", table_name="state_periods")
    op.drop_table("state_periods")
    op.drop_table("epochs")
