"""Crawls: one row each, their URLs with what became of them, and where each page leads."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

TABLES = ("crawl", "crawl_lead", "crawl_url")
#: As in revision 0002, written out here too: a migration means the same for ever.
POLICIES = (
    ("taboot_namespace", "PUBLIC", "namespace = current_setting('taboot.namespace', true)"),
    ("taboot_maintenance", "PUBLIC", "current_user = 'taboot_maintenance'"),
    ("taboot_owner", "CURRENT_USER", "current_setting('taboot.maintenance', true) = 'on'"),
)


def upgrade() -> None:
    op.create_table(
        "crawl",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("crawl_id", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("roots", sa.Text(), nullable=False),
        sa.Column("requested_depth", sa.Integer(), nullable=False),
        sa.Column("max_pages", sa.Integer(), nullable=False),
        sa.Column("strategy", sa.Text(), nullable=False),
        sa.Column("score_threshold", sa.Float(), nullable=False),
        sa.Column("configuration", sa.Text(), nullable=False),
        sa.Column("link_rules", sa.Text(), nullable=False),
        sa.Column("previous", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("taken", sa.Integer(), nullable=False),
        sa.Column("listing", sa.Text(), nullable=True),
        sa.Column("complete", sa.Boolean(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("counts", sa.Text(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("namespace", "crawl_id"),
    )
    op.create_index("ix_crawl_source", "crawl", ["namespace", "source_id", "number"], unique=False)
    op.create_table(
        "crawl_url",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("crawl_id", sa.Text(), nullable=False),
        sa.Column("url_id", sa.LargeBinary(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("parent", sa.LargeBinary(), nullable=True),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("score", sa.Float(), nullable=False),
        sa.Column("preferred", sa.Boolean(), nullable=False),
        sa.Column("rank", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("code", sa.Text(), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("found_at", sa.BigInteger(), nullable=False),
        sa.Column("claimed_at", sa.BigInteger(), nullable=True),
        sa.Column("claimed_by", sa.Text(), nullable=True),
        sa.Column("heartbeat_at", sa.BigInteger(), nullable=True),
        sa.Column("answered_at", sa.BigInteger(), nullable=True),
        sa.Column("http_status", sa.Integer(), nullable=True),
        sa.Column("request_seconds", sa.Float(), nullable=True),
        sa.Column("ip", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("namespace", "crawl_id", "url_id"),
    )
    for name, columns, state in (
        ("ix_crawl_url_pending", ["namespace", "crawl_id", "host", "rank"], "PENDING"),
        ("ix_crawl_url_claimed", ["namespace", "crawl_id", "claimed_by"], "IN-PROGRESS"),
    ):
        where = sa.text(f"state = '{state}'")
        op.create_index(name, "crawl_url", columns, sqlite_where=where, postgresql_where=where)
    op.create_table(
        "crawl_lead",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("crawl_id", sa.Text(), nullable=False),
        sa.Column("parent", sa.LargeBinary(), nullable=False),
        sa.Column("content", sa.Text(), nullable=True),
        sa.Column("children", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "crawl_id", "parent"),
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
    op.drop_table("crawl_lead")
    op.drop_index("ix_crawl_url_claimed", table_name="crawl_url")
    op.drop_index("ix_crawl_url_pending", table_name="crawl_url")
    op.drop_table("crawl_url")
    op.drop_index("ix_crawl_source", table_name="crawl")
    op.drop_table("crawl")
