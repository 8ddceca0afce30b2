"""A rebuild knows the log that its cut was made on, and the set-aside list what cannot be counted again.

Revision ID: 0032
Revises: 0031
"""

from __future__ import annotations

from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE rebuilds ADD COLUMN eras JSONB")
    op.execute("ALTER TABLE recounts ADD COLUMN expired BOOLEAN DEFAULT 'false' NOT NULL")


def downgrade() -> None:
    op.drop_column("recounts", "expired")
    op.drop_column("rebuilds", "eras")
