"""What a job was told to read: a source whose entry says something else since then has to be read again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("job", sa.Column("configuration", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("job", "configuration")
