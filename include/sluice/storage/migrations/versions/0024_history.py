"""Who changed what: entries that nobody changes"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

#: The days are those of `sluice.storage.history.KEPT_DAYS`.
REFUSE = """
CREATE FUNCTION refuse_change_of_history() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.at < now() - interval '30 days' THEN
            RETURN OLD;
        END IF;
    END IF;
    RAISE EXCEPTION 'the history only grows: % is refused', TG_OP;
END $$
"""


def upgrade() -> None:
    op.create_table(
        "history",
        sa.Column("id", sa.BigInteger(), sa.Identity(), primary_key=True),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("before", sa.Text(), server_default="", nullable=False),
        sa.Column("after", sa.Text(), server_default="", nullable=False),
        sa.Column("token", sa.Text(), unique=True),
    )
    op.create_index("history_at", "history", ["at"])
    op.create_index("history_who", "history", ["who", "id"])
    op.execute(REFUSE)
    op.execute(
        "CREATE TRIGGER history_grows BEFORE UPDATE OR DELETE ON history "
        "FOR EACH ROW EXECUTE FUNCTION refuse_change_of_history()"
    )
    op.execute(
        "CREATE TRIGGER history_stays BEFORE TRUNCATE ON history "
        "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_history()"
    )


def downgrade() -> None:
    op.drop_table("history")
    op.execute("DROP FUNCTION refuse_change_of_history()")
