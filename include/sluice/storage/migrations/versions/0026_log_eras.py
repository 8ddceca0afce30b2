"""The eras of each partition's log."""

from __future__ import annotations

from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

ADD = """
CREATE TABLE log_eras (
    topic TEXT NOT NULL,
    partition INTEGER NOT NULL,
    era INTEGER NOT NULL,
    topic_id TEXT NOT NULL,
    begins BIGINT NOT NULL,
    epoch INTEGER NOT NULL,
    reached BIGINT NOT NULL,
    found_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    settled_epoch INTEGER,
    PRIMARY KEY (topic, partition, era)
)
"""


def upgrade() -> None:
    op.execute(ADD)


def downgrade() -> None:
    op.execute("DROP TABLE log_eras")
