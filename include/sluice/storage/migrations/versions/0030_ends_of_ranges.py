"""The commit that ended each range of a task version, so that readers find the newest ones by an index.

Of a range that another version of its task followed it is known. Of others that ended before, it stays
unknown, and readers look at them each time.
"""

from __future__ import annotations

from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

ADD = """
ALTER TABLE task_ranges ADD COLUMN end_seq BIGINT;
UPDATE task_ranges r SET end_seq = following.seq FROM (
    SELECT b.task_id, b.version, b.first_seq, max(a.first_seq) AS seq
    FROM task_ranges b JOIN task_ranges a ON a.topic = b.topic AND a.task_id = b.task_id
        AND a.first_seq > b.first_seq AND a.start = b."end"
    GROUP BY b.task_id, b.version, b.first_seq
) following
WHERE r.task_id = following.task_id AND r.version = following.version
    AND r.first_seq = following.first_seq;
CREATE INDEX task_ranges_ended ON task_ranges (topic, end_seq)
"""


def upgrade() -> None:
    op.execute(ADD)


def downgrade() -> None:
    op.execute("DROP INDEX task_ranges_ended")
    op.execute("ALTER TABLE task_ranges DROP COLUMN end_seq")
