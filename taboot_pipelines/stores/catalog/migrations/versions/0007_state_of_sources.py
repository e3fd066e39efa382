"""What connectors keep of their sources from one run to the next, such as the cursor of an API."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
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
        "source_state",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("configuration", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "source_id", "key"),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute('ALTER TABLE "source_state" ENABLE ROW LEVEL SECURITY')
        op.execute('ALTER TABLE "source_state" FORCE ROW LEVEL SECURITY')
        for policy, who, grounds in POLICIES:
            op.execute(
                f'CREATE POLICY {policy} ON "source_state" TO {who} USING ({grounds}) WITH CHECK ({grounds})'
            )


def downgrade() -> None:
    op.drop_table("source_state")
