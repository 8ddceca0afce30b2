"""When each file of the archive was indexed, and what retention deleted from the archive.

The files that a merged one replaces are kept for a while after it was indexed.
"""

from __future__ import annotations

from alembic import op

revision = "0029"
down_revision = "0026"
branch_labels = None
depends_on = None

INDEXED_AT = "ALTER TABLE archive_files ADD COLUMN indexed_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL"
FLOORS = """
CREATE TABLE archive_floors (
    topic TEXT NOT NULL,
    topic_id TEXT NOT NULL,
    partition INTEGER NOT NULL,
    next BIGINT NOT NULL,
    records BIGINT NOT NULL,
    lines BIGINT NOT NULL,
    PRIMARY KEY (topic, topic_id, partition)
)
"""
EXPIRED_DAYS = """
CREATE TABLE archive_expired_days (
    topic TEXT NOT NULL,
    day DATE NOT NULL,
    lines BIGINT NOT NULL,
    expired_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    PRIMARY KEY (topic, day)
)
"""


def upgrade() -> None:
    for statement in (INDEXED_AT, FLOORS, EXPIRED_DAYS):
        op.execute(statement)


def downgrade() -> None:
    op.execute("DROP TABLE archive_expired_days")
    op.execute("DROP TABLE archive_floors")
    op.execute("ALTER TABLE archive_files DROP COLUMN indexed_at")
