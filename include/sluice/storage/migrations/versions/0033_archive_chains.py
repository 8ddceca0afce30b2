"""The sums over each chain of archive files, kept by triggers: nobody adds up all files ever.

The triggers are of statements: a merged file takes the place of thousands of rows at once.
"""

from __future__ import annotations

from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None

SUMS = """
    SELECT topic, topic_id, partition, count(*) AS files, sum(records) AS records, sum(lines) AS lines,
        sum(bytes) AS bytes, sum(next - first) AS offsets
    FROM {rows} GROUP BY topic, topic_id, partition
"""
TABLE = """
CREATE TABLE archive_chains (
    topic TEXT NOT NULL,
    topic_id TEXT NOT NULL,
    partition INTEGER NOT NULL,
    files BIGINT NOT NULL,
    records BIGINT NOT NULL,
    lines BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    offsets BIGINT NOT NULL,
    PRIMARY KEY (topic, topic_id, partition)
)
"""
FUNCTION = """
CREATE FUNCTION keep_archive_chains() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        UPDATE archive_chains c SET files = c.files - o.files, records = c.records - o.records,
            lines = c.lines - o.lines, bytes = c.bytes - o.bytes, offsets = c.offsets - o.offsets
        FROM ({gone}) o
        WHERE c.topic = o.topic AND c.topic_id = o.topic_id AND c.partition = o.partition;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO archive_chains AS c {come}
        ON CONFLICT (topic, topic_id, partition) DO UPDATE SET
            files = c.files + excluded.files, records = c.records + excluded.records,
            lines = c.lines + excluded.lines, bytes = c.bytes + excluded.bytes,
            offsets = c.offsets + excluded.offsets;
    END IF;
    RETURN NULL;
END $$
"""
#: What each kind of statement gives to the trigger.
ROWS = {"insert": "NEW TABLE AS come", "delete": "OLD TABLE AS gone"}
ROWS["update"] = f"{ROWS['delete']} {ROWS['insert']}"


def upgrade() -> None:
    op.execute(TABLE)
    op.execute("LOCK TABLE archive_files IN SHARE ROW EXCLUSIVE MODE")  # while this adds up
    op.execute(f"INSERT INTO archive_chains {SUMS.format(rows='archive_files')}")
    op.execute(FUNCTION.format(gone=SUMS.format(rows="gone"), come=SUMS.format(rows="come")))
    for kind, rows in ROWS.items():
        op.execute(
            f"CREATE TRIGGER archive_chains_{kind} AFTER {kind} ON archive_files REFERENCING {rows} "
            "FOR EACH STATEMENT EXECUTE FUNCTION keep_archive_chains()"
        )


def downgrade() -> None:
    for kind in ROWS:
        op.execute(f"DROP TRIGGER archive_chains_{kind} ON archive_files")
    op.execute("DROP FUNCTION keep_archive_chains()")
    op.execute("DROP TABLE archive_chains")
