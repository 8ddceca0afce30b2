"""The last rebalances of the archiver's groups are kept"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "rebalances",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("member", sa.Text(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("gained", postgresql.JSONB(), nullable=False),
        sa.Column("lost", postgresql.JSONB(), nullable=False),
        sa.Column("seconds", sa.Float()),
    )
    op.create_index("rebalances_of", "rebalances", ["topic", "id"])


def downgrade() -> None:
    op.drop_table("rebalances")
