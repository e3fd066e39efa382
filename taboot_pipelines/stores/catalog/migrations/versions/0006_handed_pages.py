"""Pages that one process of a crawl has read and another, which leads it, has yet to take in."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("crawl_url", sa.Column("handed", sa.Text(), nullable=True))
    where = sa.text("handed IS NOT NULL")
    op.create_index(
        "ix_crawl_url_handed",
        "crawl_url",
        ["namespace", "crawl_id", "url_id"],
        sqlite_where=where,
        postgresql_where=where,
    )


def downgrade() -> None:
    op.drop_index("ix_crawl_url_handed", table_name="crawl_url")
    op.drop_column("crawl_url", "handed")
