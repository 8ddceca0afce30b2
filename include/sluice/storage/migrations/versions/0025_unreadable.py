"""What was wrong with records of Kafka that could not be read"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("dead_letters", sa.Column("unreadable", sa.Text()))
    op.add_column("dead_letters", sa.Column("last_offset", sa.BigInteger()))


def downgrade() -> None:
    op.drop_column("dead_letters", "last_offset")
    op.drop_column("dead_letters", "unreadable")
