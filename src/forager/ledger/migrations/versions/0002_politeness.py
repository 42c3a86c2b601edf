"""Politeness: what operators say about domains, the last good robots.txt, and proxies."""

import sqlalchemy as sa
from alembic import op

revision = "core_0002"
down_revision = "core_0001"
branch_labels = None
depends_on = None

# A rowid on SQLite needs INTEGER; everywhere else these are 64-bit.
BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _create_domains()
    _create_robots()
    _create_proxies()


def downgrade() -> None:
    op.drop_table("proxies")
    op.drop_table("robots")
    op.drop_table("domains")


def _create_domains() -> None:
    op.create_table(
        "domains",
        sa.Column("domain_name", sa.Text(), nullable=False),
        sa.Column("base_url", sa.Text()),
        sa.Column("crawl_delay_seconds", sa.Float()),
        sa.Column("max_concurrent_requests", sa.Integer()),
        sa.Column("is_active", sa.Boolean(), nullable=False, server_default=sa.text("true")),
        sa.Column("tokens_per_interval", sa.Float()),
        sa.Column("interval_seconds", sa.Float()),
        sa.Column("min_delay_ms", sa.Integer()),
        sa.Column("max_delay_ms", sa.Integer()),
        sa.Column("allowed_hours_start", sa.SmallInteger()),
        sa.Column("allowed_hours_end", sa.SmallInteger()),
        sa.Column("respect_robots_txt", sa.Boolean()),
        sa.Column("use_proxies", sa.Boolean()),
        sa.Column("proxy_cooldown_seconds", sa.Float()),
        sa.Column("block_resources", sa.Text(), comment="image, font, media, stylesheet; separated by commas"),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("domain_name", name="pk_domains"),
    )
    op.create_index("ix_domains_updated_at", "domains", ["updated_at"])


def _create_robots() -> None:
    op.create_table(
        "robots",
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), comment="of the last try; NULL: no answer"),
        sa.Column("tried_at", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), comment="the last good copy"),
        sa.Column("good_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("origin", name="pk_robots"),
    )


def _create_proxies() -> None:
    op.create_table(
        "proxies",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False, comment="keyed hash of the whole address: no two alike"),
        sa.Column("protocol", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False, comment="the host, without user and password"),
        sa.Column("port", sa.Integer(), nullable=False),
        sa.Column("username", sa.Text(), comment="encrypted"),
        sa.Column("password", sa.Text(), comment="encrypted"),
        sa.Column("region", sa.String(2)),
        sa.Column("source", sa.Text(), nullable=False, comment="who added it: operator or settings"),
        sa.Column(
            "is_active", sa.Boolean(), nullable=False, server_default=sa.text("true"), comment="the operator's switch"
        ),
        sa.Column("healthy", sa.Boolean(), nullable=False, server_default=sa.text("true")),
        sa.Column(
            "disabled",
            sa.Boolean(),
            nullable=False,
            server_default=sa.text("false"),
            comment="too many failures in a row",
        ),
        sa.Column("failure_count", sa.Integer(), nullable=False, server_default="0", comment="in a row"),
        sa.Column("success_count", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("failures", sa.BigInteger(), nullable=False, server_default="0", comment="in all"),
        sa.Column("last_used_at", sa.BigInteger()),
        sa.Column("last_success_at", sa.BigInteger()),
        sa.Column("last_failure_at", sa.BigInteger()),
        sa.Column("last_check_at", sa.BigInteger()),
        sa.Column("avg_response_time_ms", sa.Float()),
        sa.Column("bytes", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_proxies"),
        sa.UniqueConstraint("fingerprint", name="uq_proxies_fingerprint"),
    )
