"""Tables of the default state backend, and row-level security per namespace on every table (PostgreSQL)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

STATE = ("state_value", "state_member", "state_bucket", "state_circuit", "state_lock")
#: Written out, not read from the schema: a migration means the same for ever.
TABLES = (
    "audit_event",
    "blob",
    "confirmation",
    "dead_letter",
    "deletion",
    "fetch",
    "interpretation_run",
    "job",
    "locator",
    "pointer",
    "source_entry",
    "storage_usage",
    "tombstone",
    "unit_state",
    "upload_queue",
    *STATE,
)
#: (name, for whom, which rows). Stands a row in none of them, it is not there.
POLICIES = (
    ("taboot_namespace", "PUBLIC", "namespace = current_setting('taboot.namespace', true)"),
    # By its name, so that neither the order of making roles and tables nor inheritance matters.
    ("taboot_maintenance", "PUBLIC", "current_user = 'taboot_maintenance'"),
    # An owner in a server without the maintenance role spans namespaces by saying so, for one transaction.
    ("taboot_owner", "CURRENT_USER", "current_setting('taboot.maintenance', true) = 'on'"),
)


def upgrade() -> None:
    op.create_table(
        "state_value",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "key"),
    )
    op.create_table(
        "state_member",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("member", sa.Text(), nullable=False),
        sa.Column("due", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "queue", "member"),
    )
    op.create_index("ix_state_member_due", "state_member", ["namespace", "queue", "due"], unique=False)
    op.create_table(
        "state_bucket",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("tokens", sa.Float(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "name"),
    )
    op.create_table(
        "state_circuit",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("opened_at", sa.BigInteger(), nullable=True),
        sa.Column("last_failure", sa.BigInteger(), nullable=True),
        sa.Column("trial_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("namespace", "name"),
    )
    op.create_table(
        "state_lock",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "name"),
    )
    if op.get_bind().dialect.name == "postgresql":
        for table in TABLES:
            op.execute(f'ALTER TABLE "{table}" ENABLE ROW LEVEL SECURITY')
            # FORCE: the owner of a table is otherwise exempt from its policies.
            op.execute(f'ALTER TABLE "{table}" FORCE ROW LEVEL SECURITY')
            for policy, who, grounds in POLICIES:
                op.execute(
                    f'CREATE POLICY {policy} ON "{table}" TO {who} USING ({grounds}) WITH CHECK ({grounds})'
                )


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        for table in TABLES:
            for policy, _, _ in POLICIES:
                op.execute(f'DROP POLICY {policy} ON "{table}"')
            op.execute(f'ALTER TABLE "{table}" NO FORCE ROW LEVEL SECURITY')
            op.execute(f'ALTER TABLE "{table}" DISABLE ROW LEVEL SECURITY')
    op.drop_table("state_lock")
    op.drop_table("state_circuit")
    op.drop_table("state_bucket")
    op.drop_index("ix_state_member_due", table_name="state_member")
    op.drop_table("state_member")
    op.drop_table("state_value")
