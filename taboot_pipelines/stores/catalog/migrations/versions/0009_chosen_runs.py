"""Runs that a person asked for and chose, and batches of units that are being interpreted.

What a run left (``outcome``) is not known of the runs that there are, which the empty text says: their units
are interpreted anew where such a run is wanted again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

TABLES = ("chosen_run", "interpretation_batch")
COLUMNS = (
    ("number", sa.Integer(), "0"),
    ("overrides", sa.Text(), "{}"),
    ("candidate", sa.Boolean(), sa.false()),
)
#: As in revision 0002, written out here too: a migration means the same for ever.
POLICIES = (
    ("taboot_namespace", "PUBLIC", "namespace = current_setting('taboot.namespace', true)"),
    ("taboot_maintenance", "PUBLIC", "current_user = 'taboot_maintenance'"),
    ("taboot_owner", "CURRENT_USER", "current_setting('taboot.maintenance', true) = 'on'"),
)


def upgrade() -> None:
    for name, kind, default in COLUMNS:
        op.add_column("interpretation_run", sa.Column(name, kind, nullable=False, server_default=default))
    op.add_column("interpretation_run", sa.Column("outcome", sa.Text(), nullable=True))
    op.execute("UPDATE interpretation_run SET outcome = ''")
    op.create_table(
        "chosen_run",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            primary_key=True,
            autoincrement=True,
        ),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Text(), nullable=False),
        sa.Column("tier", sa.Text(), nullable=False),
        sa.Column("unit_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("input_fingerprint", sa.Text(), nullable=False),
        sa.Column("overrides", sa.Text(), nullable=False),
        sa.Column("reads", sa.Text(), nullable=False),
        sa.Column("promotion", sa.Text(), nullable=False),
        sa.Column("chosen_at", sa.BigInteger(), nullable=False),
        sa.Column("withdrawn_at", sa.BigInteger(), nullable=True),
    )
    op.create_index("ix_chosen_run_source", "chosen_run", ["namespace", "source_id", "tier"])
    op.create_table(
        "interpretation_batch",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("batch_id", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Text(), nullable=False),
        sa.Column("tier", sa.Text(), nullable=False),
        sa.Column("units", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("process_started_at", sa.Float(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("completed_at", sa.BigInteger(), nullable=True),
        sa.Column("heartbeat_at", sa.BigInteger(), nullable=False),
        sa.Column("timeout_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "batch_id"),
    )
    op.create_index(
        "ix_interpretation_batch_source", "interpretation_batch", ["namespace", "source_id", "tier"]
    )
    if op.get_bind().dialect.name == "postgresql":
        for table in TABLES:
            op.execute(f'ALTER TABLE "{table}" ENABLE ROW LEVEL SECURITY')
            op.execute(f'ALTER TABLE "{table}" FORCE ROW LEVEL SECURITY')
            for policy, who, grounds in POLICIES:
                op.execute(
                    f'CREATE POLICY {policy} ON "{table}" TO {who} USING ({grounds}) WITH CHECK ({grounds})'
                )


def downgrade() -> None:
    op.drop_table("interpretation_batch")
    op.drop_table("chosen_run")
    # What waits to be promoted, or was and is no more, is unknown to the version before.
    op.execute("DELETE FROM interpretation_run WHERE number > 0")
    for name in ("outcome", *(name for name, _, _ in COLUMNS)):
        op.drop_column("interpretation_run", name)
