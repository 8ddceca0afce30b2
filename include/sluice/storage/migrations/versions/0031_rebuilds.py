"""Rebuilds: the periods that are counted again from the archive, and their blocks."""

from __future__ import annotations

from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None

ADD = """
CREATE TABLE rebuilds (
    id SERIAL PRIMARY KEY,
    topic TEXT NOT NULL,
    versions JSONB,
    first_day DATE,
    last_day DATE,
    state TEXT NOT NULL,
    cut JSONB,
    cut_seq BIGINT,
    revision BIGINT DEFAULT '0' NOT NULL,
    days JSONB DEFAULT '[]' NOT NULL,
    done_days JSONB DEFAULT '[]' NOT NULL,
    lines BIGINT DEFAULT '0' NOT NULL,
    requested_by TEXT NOT NULL,
    requested_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    finished_at TIMESTAMP WITH TIME ZONE,
    tried_at TIMESTAMP WITH TIME ZONE,
    message TEXT
);
CREATE INDEX rebuilds_unfinished ON rebuilds (id) WHERE state <> 'finished';
CREATE TABLE recounts (
    topic TEXT NOT NULL,
    task_id INTEGER NOT NULL,
    version INTEGER NOT NULL,
    period_start BIGINT NOT NULL,
    why TEXT,
    since TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    rebuild_id INTEGER,
    switched BOOLEAN DEFAULT 'false' NOT NULL,
    PRIMARY KEY (topic, task_id, version, period_start)
);
CREATE TABLE rebuilt_blocks (
    rebuild_id INTEGER NOT NULL,
    "row" TEXT NOT NULL,
    topic TEXT NOT NULL,
    task_id INTEGER NOT NULL,
    version INTEGER NOT NULL,
    day DATE NOT NULL,
    period_start BIGINT NOT NULL,
    layout INTEGER NOT NULL,
    bucket INTEGER NOT NULL,
    "column" TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (rebuild_id, "row")
)
"""


def upgrade() -> None:
    op.execute(ADD)


def downgrade() -> None:
    op.execute("DROP TABLE rebuilt_blocks; DROP TABLE recounts; DROP TABLE rebuilds")
