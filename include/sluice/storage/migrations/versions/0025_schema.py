"""All tables, as version 0.1.0 left them.

It stands for the migrations 0001 to 0025 and has the last one's number, so a database that these brought to
0025 goes on from here. `sluice.storage.postgres.migrate` refuses one that is older.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0025"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(Path(__file__).with_suffix(".sql").read_text())


def downgrade() -> None:
    raise NotImplementedError("nothing is before this schema: drop the database instead")
