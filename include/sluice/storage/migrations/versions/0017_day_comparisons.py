"""The newest comparisons of each day are kept with what they found; dead letters are found by arrival"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0017"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "day_comparisons",
        sa.Column("topic", sa.Text(), primary_key=True),
        sa.Column("day", sa.Date(), primary_key=True),
        sa.Column("run_at", sa.DateTime(timezone=True), primary_key=True),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("compared", sa.BigInteger(), nullable=False),
        sa.Column("differing", sa.BigInteger(), nullable=False),
        sa.Column("details", postgresql.JSONB(), nullable=False),
    )
    op.create_index("dead_letters_arrived", "dead_letters", ["topic", "arrived_at"])


def downgrade() -> None:
    op.drop_index("dead_letters_arrived")
    op.drop_table("day_comparisons")
