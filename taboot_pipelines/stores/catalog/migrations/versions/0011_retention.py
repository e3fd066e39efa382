"""How long documents are kept, and which deletions are their expiry."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
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
        "retention_policy",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("days", sa.Integer()),
        sa.Column("set_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "kind", "subject"),
    )
    op.add_column("deletion", sa.Column("expired", sa.Boolean(), nullable=False, server_default=sa.false()))
    if op.get_bind().dialect.name == "postgresql":
        table = '"retention_policy"'
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        for policy, who, grounds in POLICIES:
            op.execute(f"CREATE POLICY {policy} ON {table} TO {who} USING ({grounds}) WITH CHECK ({grounds})")


def downgrade() -> None:
    op.drop_column("deletion", "expired")
    op.drop_table("retention_policy")
