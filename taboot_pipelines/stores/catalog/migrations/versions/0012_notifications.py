"""What endpoints are told of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
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
        "notification",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", sa.BigInteger(), nullable=False),
        sa.Column("code", sa.Text()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "id"),
    )
    op.create_index("ix_notification_due", "notification", ["namespace", "state", "next_at"])
    if op.get_bind().dialect.name == "postgresql":
        op.execute('ALTER TABLE "notification" ENABLE ROW LEVEL SECURITY')
        op.execute('ALTER TABLE "notification" FORCE ROW LEVEL SECURITY')
        for policy, who, grounds in POLICIES:
            op.execute(
                f'CREATE POLICY {policy} ON "notification" TO {who} USING ({grounds}) WITH CHECK ({grounds})'
            )


def downgrade() -> None:
    op.drop_index("ix_notification_due", table_name="notification")
    op.drop_table("notification")
