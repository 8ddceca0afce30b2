"""Topics of several drivers of the speed layer"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "speed_topics",
        sa.Column("topic", sa.Text(), primary_key=True),
        sa.Column("driver", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text()),
    )


def downgrade() -> None:
    op.drop_table("speed_topics")
