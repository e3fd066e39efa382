"""What people decided: corrections, structured facts, merges, and their undoing."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
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
        "assertion",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text()),
        sa.Column("who", sa.Text()),
        sa.Column("reason", sa.Text()),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("erased_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("namespace", "number"),
        sa.UniqueConstraint("namespace", "id", name="uq_assertion_id"),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute('ALTER TABLE "assertion" ENABLE ROW LEVEL SECURITY')
        op.execute('ALTER TABLE "assertion" FORCE ROW LEVEL SECURITY')
        for policy, who, grounds in POLICIES:
            op.execute(
                f'CREATE POLICY {policy} ON "assertion" TO {who} USING ({grounds}) WITH CHECK ({grounds})'
            )


def downgrade() -> None:
    op.drop_table("assertion")
