"""What people think of answers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
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
        "feedback",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("must", sa.Text(), nullable=False),
        sa.Column("doc_ids", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "question"),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute('ALTER TABLE "feedback" ENABLE ROW LEVEL SECURITY')
        op.execute('ALTER TABLE "feedback" FORCE ROW LEVEL SECURITY')
        for policy, who, grounds in POLICIES:
            op.execute(
                f'CREATE POLICY {policy} ON "feedback" TO {who} USING ({grounds}) WITH CHECK ({grounds})'
            )


def downgrade() -> None:
    op.drop_table("feedback")
