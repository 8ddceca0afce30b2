"""The archive's files of a day are found by an index"""

from __future__ import annotations

from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        "CREATE INDEX archive_files_days ON archive_files "
        "USING gin (jsonb_path_query_array(days, '$.keyvalue().key'))"
    )


def downgrade() -> None:
    op.drop_index("archive_files_days", "archive_files")
