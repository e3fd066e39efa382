"""What has been counted since the catalog was made."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

#: As in revision 0002, written out here too: a migration means the same for ever.
POLICIES = (
    ("taboot_namespace", "PUBLIC", "namespace = current_setting('taboot.namespace', true)"),
    ("taboot_maintenance", "PUBLIC", "current_user = 'taboot_maintenance'"),
    ("taboot_owner", "CURRENT_USER", "current_setting('taboot.maintenance', true) = 'on'"),
)


def upgrade() -> None:
    op.create_table(
        "total",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("value", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "name", "labels"),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute('ALTER TABLE "total" ENABLE ROW LEVEL SECURITY')
        op.execute('ALTER TABLE "total" FORCE ROW LEVEL SECURITY')
        for policy, who, grounds in POLICIES:
            op.execute(f'CREATE POLICY {policy} ON "total" TO {who} USING ({grounds}) WITH CHECK ({grounds})')


def downgrade() -> None:
    op.drop_table("total")
