"""A day's last reconciliation, and the figures of the last 24 hours, are kept"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "reconciled_days",
        sa.Column("topic", sa.Text(), primary_key=True),
        sa.Column("day", sa.Date(), primary_key=True),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("run_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "figures",
        sa.Column("at", sa.DateTime(timezone=True), primary_key=True),
        sa.Column("figures", postgresql.JSONB(), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("figures")
    op.drop_table("reconciled_days")
