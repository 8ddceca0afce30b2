"""Units: their loads, their hosts and their moves"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "unit_loads",
        sa.Column("unit", sa.Text(), primary_key=True),
        sa.Column("smoothed", postgresql.JSONB(), nullable=False),
        sa.Column("reading", postgresql.JSONB()),
    )
    op.create_table(
        "unit_hosts",
        sa.Column("host", sa.Text(), primary_key=True),
        sa.Column("cores", sa.Integer()),
        sa.Column("core", sa.Float()),
        sa.Column("measured_at", sa.DateTime(timezone=True)),
        sa.Column("smoothed", postgresql.JSONB(), nullable=False),
        sa.Column("reading", postgresql.JSONB()),
        sa.Column("looked_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("silent_since", sa.DateTime(timezone=True)),
        sa.Column("why", sa.Text(), server_default="", nullable=False),
    )
    op.create_table(
        "unit_moves",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("counts", sa.Boolean(), nullable=False),
        sa.Column("begun_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.Column("error", sa.Text(), server_default="", nullable=False),
    )


def downgrade() -> None:
    for table in ("unit_moves", "unit_hosts", "unit_loads"):
        op.drop_table(table)
