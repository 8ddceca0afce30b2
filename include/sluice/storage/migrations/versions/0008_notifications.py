"""Each alert's opening and closing is told once"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("told_raised_at", "told_cleared_at"):
        op.add_column("alerts", sa.Column(name, sa.DateTime(timezone=True), nullable=True))
    # What happened before this migration is not sent.
    op.execute("UPDATE alerts SET told_raised_at = now(), told_cleared_at = cleared_at")


def downgrade() -> None:
    op.drop_column("alerts", "told_cleared_at")
    op.drop_column("alerts", "told_raised_at")
