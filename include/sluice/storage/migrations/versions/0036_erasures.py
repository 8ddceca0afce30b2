"""Erasures: who had which lines erased, and how many of the archive's lines and of the sums were.

Revision ID: 0036
Revises: 0033
"""

from __future__ import annotations

from alembic import op

revision = "0036"
down_revision = "0033"
branch_labels = None
depends_on = None

ADD = """
ALTER TABLE archive_files ADD COLUMN redacted BIGINT DEFAULT '0' NOT NULL;
ALTER TABLE pruned ADD COLUMN redacted BIGINT DEFAULT '0' NOT NULL;
CREATE TABLE erasures (
    id SERIAL PRIMARY KEY,
    topic TEXT NOT NULL,
    dimension TEXT NOT NULL,
    salt BYTEA NOT NULL,
    value_hash BYTEA NOT NULL,
    first_day DATE,
    last_day DATE,
    state TEXT NOT NULL,
    cut JSONB NOT NULL,
    days JSONB NOT NULL,
    counts JSONB NOT NULL,
    requested_by TEXT NOT NULL,
    requested_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    redacted_at TIMESTAMP WITH TIME ZONE,
    finished_at TIMESTAMP WITH TIME ZONE
);
CREATE INDEX erasures_topic ON erasures (topic);
CREATE TABLE erased_files (
    topic TEXT NOT NULL,
    topic_id TEXT NOT NULL,
    partition INTEGER NOT NULL,
    first BIGINT NOT NULL,
    erasure_id INTEGER NOT NULL,
    claim TEXT NOT NULL,
    account JSONB NOT NULL,
    PRIMARY KEY (topic, topic_id, partition, first)
)
"""


def upgrade() -> None:
    op.execute(ADD)


def downgrade() -> None:
    op.execute("DROP TABLE erased_files; DROP TABLE erasures")
    op.execute("ALTER TABLE pruned DROP COLUMN redacted; ALTER TABLE archive_files DROP COLUMN redacted")
