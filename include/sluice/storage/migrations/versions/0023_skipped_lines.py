"""What became of the lines that have a time, by task version and day

Days that were counted before have no rows: nobody knows what was skipped then.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    counts = ("counted", "filtered", "unmatched", "too_long")
    op.create_table(
        "tallies", *_named(), *(sa.Column(name, sa.BigInteger(), nullable=False) for name in counts)
    )
    op.create_table(
        "skipped_lines",
        *_named(),
        sa.Column("kind", sa.Text(), primary_key=True),
        sa.Column("partition", sa.Integer(), primary_key=True),
        sa.Column("offset", sa.BigInteger(), primary_key=True),
        sa.Column("line_in_record", sa.Integer(), primary_key=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("line", sa.LargeBinary(), nullable=False),
    )
    op.create_index(
        "dead_letters_of_dimensions",
        "dead_letters",
        ["topic"],
        postgresql_where=sa.text("reason LIKE 'dimension over %'"),
    )


def downgrade() -> None:
    op.drop_index("dead_letters_of_dimensions", "dead_letters")
    op.drop_table("skipped_lines")
    op.drop_table("tallies")


def _named() -> list[sa.Column[object]]:
    return [
        sa.Column("topic", sa.Text(), primary_key=True),
        sa.Column("layer", sa.Text(), primary_key=True),
        sa.Column("day", sa.Date(), primary_key=True),
        sa.Column("task_id", sa.Integer(), primary_key=True),
        sa.Column("version", sa.Integer(), primary_key=True),
    ]
