"""Tables of products: pages and the products on them, pictures, and the health of parsers."""

import sqlalchemy as sa
from alembic import op

from forager.sdk.migrations import create_index, create_record_table, stamped

revision = "products_0001"
down_revision = None
branch_labels = ("products",)
depends_on = None

FIELDS = "product_name description price currency availability rating review_count brand category sku gtin".split()
TRIAL_COUNTS = [
    *"pages added_pages missing_pages broken broken_before".split(),
    *(f"{field}_{how}" for field in FIELDS for how in "agree stronger weaker even added missing".split()),
]


def _count(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False, server_default=sa.text("0"))


def upgrade() -> None:
    create_record_table(
        "pages",
        sa.Column("url_hash", sa.Text(), nullable=False),
        sa.Column("url", sa.Text()),
        sa.Column("domain", sa.Text()),
        sa.Column("priority", sa.BigInteger()),
        sa.Column("frequency", sa.BigInteger()),
        sa.Column("usual_frequency", sa.BigInteger()),
        sa.Column("recrawl", sa.Boolean()),
        sa.Column("max_retries", sa.BigInteger()),
        sa.Column("render", sa.Text()),
        sa.Column("outcome", sa.Text()),
        sa.Column("http_status", sa.BigInteger()),
        sa.Column("crawled_at", sa.BigInteger()),
        sa.Column("fetched_at", sa.BigInteger()),
        sa.Column("html", sa.Text()),
        sa.Column("etag", sa.Text()),
        sa.Column("last_modified", sa.Text()),
        sa.Column("confirmed", sa.BigInteger()),
        sa.Column("misses", sa.BigInteger()),
        sa.Column("product_url", sa.Text()),
        sa.Column("offer", sa.Text()),
        sa.Column("failed_at", sa.BigInteger()),
        sa.Column("crawl_interval", sa.BigInteger()),
        sa.Column("next_crawl_at", sa.BigInteger()),
        key="url_hash",
    )
    create_index("pages", "domain", "id")
    create_index("pages", "next_crawl_at", "id", where="next_crawl_at IS NOT NULL")
    create_record_table(
        "items",
        sa.Column("url_hash", sa.Text(), nullable=False),
        sa.Column("url", sa.Text()),
        sa.Column("domain", sa.Text()),
        sa.Column("product_name", sa.Text()),
        sa.Column("description", sa.Text()),
        sa.Column("price", sa.BigInteger()),
        sa.Column("currency", sa.Text()),
        sa.Column("availability", sa.Text()),
        sa.Column("rating", sa.BigInteger()),
        sa.Column("review_count", sa.BigInteger()),
        sa.Column("brand", sa.Text()),
        sa.Column("category", sa.Text()),
        sa.Column("sku", sa.Text()),
        sa.Column("gtin", sa.Text()),
        sa.Column("images", sa.JSON()),
        sa.Column("metadata", sa.JSON()),
        sa.Column("content_hash", sa.Text()),
        sa.Column("page_hash", sa.Text()),
        sa.Column("evidence", sa.JSON()),
        sa.Column("shown", sa.JSON()),
        sa.Column("unseen", sa.JSON()),
        sa.Column("fetched_at", sa.BigInteger()),
        sa.Column("parser", sa.Text()),
        sa.Column("parser_version", sa.BigInteger()),
        sa.Column("quarantined", sa.JSON()),
        sa.Column("held", sa.JSON()),
        sa.Column("pictures_due_at", sa.BigInteger()),
        key="url_hash",
    )
    create_index("items", "brand", "id", "price", "rating", "availability", "gone_at")
    create_index("items", "category", "id", "price", "rating", "availability", "gone_at")
    create_index("items", "domain", "id", "price", "rating", "availability", "gone_at")
    create_index("items", "pictures_due_at", "id", where="pictures_due_at IS NOT NULL")
    create_record_table(
        "pictures",
        sa.Column("picture_key", sa.Text(), nullable=False),
        sa.Column("product_hash", sa.Text()),
        sa.Column("image_url", sa.Text()),
        sa.Column("image_path", sa.Text()),
        sa.Column("alt_text", sa.Text()),
        sa.Column("image_type", sa.Text()),
        sa.Column("position", sa.BigInteger()),
        sa.Column("width", sa.BigInteger()),
        sa.Column("height", sa.BigInteger()),
        sa.Column("file_size", sa.BigInteger()),
        key="picture_key",
    )
    create_record_table(
        "parser_alerts",
        sa.Column("alert_key", sa.Text(), nullable=False),
        sa.Column("domain", sa.Text()),
        sa.Column("parser", sa.Text()),
        sa.Column("parser_version", sa.BigInteger()),
        sa.Column("field", sa.Text()),
        sa.Column("state", sa.Text()),
        sa.Column("rate", sa.Float()),
        sa.Column("mean", sa.Float()),
        sa.Column("pages", sa.BigInteger()),
        key="alert_key",
    )
    op.create_table(
        "parser_health",
        sa.Column("domain", sa.Text(), nullable=False),
        sa.Column("parser", sa.Text(), nullable=False),
        sa.Column("parser_version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("day", sa.Text(), nullable=False),
        *(
            sa.Column(name, sa.BigInteger(), nullable=False, server_default=sa.text("0"))
            for name in ("pages", "products", *FIELDS)
        ),
        sa.PrimaryKeyConstraint("domain", "parser", "parser_version", "day", name="pk_parser_health"),
    )
    create_index("parser_health", "day")
    op.create_table(
        "parser_trials",
        sa.Column("domain", sa.Text(), nullable=False),
        sa.Column("parser", sa.Text(), nullable=False),
        sa.Column("parser_version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("against", sa.Text(), nullable=False),
        sa.Column("against_version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("day", sa.Text(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False, server_default=sa.text("0")) for name in TRIAL_COUNTS),
        sa.PrimaryKeyConstraint(
            "domain", "parser", "parser_version", "against", "against_version", "day", name="pk_parser_trials"
        ),
    )
    create_index("parser_trials", "day")
    op.create_table(
        "quarantines",
        sa.Column("domain", sa.Text(), nullable=False),
        sa.Column("parser", sa.Text(), nullable=False),
        sa.Column("parser_version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("field", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False, server_default=sa.text("'open'")),
        sa.Column("rate", sa.Float(), nullable=False),
        sa.Column("mean", sa.Float(), nullable=False),
        sa.Column("pages", sa.BigInteger(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("decided_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("domain", "parser", "parser_version", "field", name="pk_quarantines"),
    )
    op.create_table(
        "audits",
        sa.Column("week", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger()),
        sa.Column("findings", sa.JSON()),
        sa.PrimaryKeyConstraint("week", name="pk_audits"),
    )
    op.create_table(
        "sql_inbox",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("batch", sa.Text()),
        sa.Column("error", sa.Text()),
        stamped("created_at"),
        sa.PrimaryKeyConstraint("id", name="pk_sql_inbox"),
    )
    op.create_table(
        "wrappers",
        sa.Column("domain", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("field", sa.Text(), nullable=False),
        sa.Column("template", sa.Text(), nullable=False),
        sa.Column("anchors", sa.JSON(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("path", sa.JSON()),
        sa.Column("before", sa.Text(), nullable=False, server_default=sa.text("''")),
        sa.Column("after", sa.Text(), nullable=False, server_default=sa.text("''")),
        sa.Column("constant", sa.Text()),
        sa.Column("pages", sa.BigInteger(), nullable=False),
        sa.Column("support", sa.BigInteger(), nullable=False),
        _count("wrong"),
        sa.Column("score", sa.Float(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False, server_default=sa.text("'proposed'")),
        _count("same"),
        _count("changed"),
        _count("lost"),
        _count("found"),
        sa.Column("examples", sa.JSON()),
        sa.Column("learnt_at", sa.BigInteger(), nullable=False),
        sa.Column("decided_at", sa.BigInteger()),
        sa.Column("applied_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("domain", "version", "field", name="pk_wrappers"),
    )
    create_index("wrappers", "state", "domain")
    create_index("wrappers", "decided_at")
    op.create_table(
        "site_looks",
        sa.Column("domain", sa.Text(), nullable=False),
        sa.Column("looked_at", sa.BigInteger()),
        sa.Column("healed_at", sa.BigInteger()),
        _count("pages"),
        _count("version"),
        sa.PrimaryKeyConstraint("domain", name="pk_site_looks"),
    )


def downgrade() -> None:
    op.drop_table("site_looks")
    op.drop_table("wrappers")
    for table in (
        "sql_inbox",
        "audits",
        "quarantines",
        "parser_trials",
        "parser_health",
        "parser_alerts",
        "pictures",
        "items",
        "pages",
    ):
        op.drop_table(table)
