"""Domains have a number, by which other tables and the API refer to them, a currency and a crawl frequency."""

import sqlalchemy as sa
from alembic import op

revision = "core_0016"
down_revision = "core_0015"
branch_labels = None
depends_on = None

_FREQUENCY = "seconds between two crawls of a page; NULL: the general default"
_RULES = (
    "base_url, crawl_delay_seconds, max_concurrent_requests, is_active, tokens_per_interval, interval_seconds,"
    " min_delay_ms, max_delay_ms, allowed_hours_start, allowed_hours_end, respect_robots_txt, use_proxies,"
    " proxy_cooldown_seconds, block_resources, created_at, updated_at"
)


def upgrade() -> None:
    _replace(
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False, autoincrement=True),
        sa.Column("currency", sa.Text(), comment="ISO 4217, for prices of pages that do not say one"),
        sa.Column("crawl_frequency", sa.BigInteger(), comment=_FREQUENCY),
        sa.PrimaryKeyConstraint("id", name="pk_domains"),
        sa.UniqueConstraint("domain_name", name="uq_domains_domain_name"),
    )


def downgrade() -> None:
    _replace(sa.PrimaryKeyConstraint("domain_name", name="pk_domains"))


def _replace(*parts: sa.Column[object] | sa.Constraint) -> None:
    """Make the table anew, since neither store can give a table another primary key in place and in order."""
    op.drop_index("ix_domains_updated_at", table_name="domains")
    op.rename_table("domains", "domains_before")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE domains_before DROP CONSTRAINT pk_domains")
        op.execute("ALTER TABLE domains_before DROP CONSTRAINT IF EXISTS uq_domains_domain_name")
        op.execute("ALTER SEQUENCE IF EXISTS domains_id_seq RENAME TO domains_before_id_seq")
    columns = [part for part in parts if isinstance(part, sa.Column)]
    op.create_table(
        "domains",
        *columns[:1],
        sa.Column("domain_name", sa.Text(), nullable=False),
        sa.Column("base_url", sa.Text()),
        sa.Column("crawl_delay_seconds", sa.Float()),
        sa.Column("max_concurrent_requests", sa.Integer()),
        sa.Column("is_active", sa.Boolean(), server_default=sa.text("true"), nullable=False),
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
        *columns[1:],
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        *(part for part in parts if isinstance(part, sa.Constraint)),
    )
    op.create_index("ix_domains_updated_at", "domains", ["updated_at"])
    op.execute(
        f"INSERT INTO domains (domain_name, {_RULES}) SELECT domain_name, {_RULES} FROM domains_before"
        " ORDER BY created_at, domain_name"
    )
    op.drop_table("domains_before")
