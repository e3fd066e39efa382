"""Of each crawled page the URL that it says is its own, and how long its answer may be reused.

The rows keep the policies of their table, ``crawl_url``.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

COLUMNS = (
    ("canonical", sa.Text()),
    ("fresh_since", sa.BigInteger()),
    ("fresh_until", sa.BigInteger()),
    ("fresh_max_age", sa.BigInteger()),
)


def upgrade() -> None:
    for name, kind in COLUMNS:
        op.add_column("crawl_url", sa.Column(name, kind, nullable=True))


def downgrade() -> None:
    for name, _ in reversed(COLUMNS):
        op.drop_column("crawl_url", name)
