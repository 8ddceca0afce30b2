"""A Kafka record may have several lines: dead letters say which, the archive's index counts both"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

KEY = ["topic", "partition", "offset"]


def upgrade() -> None:
    # Until now a record was a line.
    op.add_column(
        "dead_letters", sa.Column("line_in_record", sa.Integer(), server_default="0", nullable=False)
    )
    op.drop_constraint("dead_letters_pkey", "dead_letters", type_="primary")
    op.create_primary_key("dead_letters_pkey", "dead_letters", [*KEY, "line_in_record"])
    op.add_column("archive_files", sa.Column("lines", sa.BigInteger(), nullable=True))
    op.execute("UPDATE archive_files SET lines = records")
    op.alter_column("archive_files", "lines", nullable=False)


def downgrade() -> None:
    op.drop_column("archive_files", "lines")
    op.execute("DELETE FROM dead_letters WHERE line_in_record > 0")
    op.drop_constraint("dead_letters_pkey", "dead_letters", type_="primary")
    op.create_primary_key("dead_letters_pkey", "dead_letters", KEY)
    op.drop_column("dead_letters", "line_in_record")
