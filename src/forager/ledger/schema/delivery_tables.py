"""What deliveries keep in the ledger: sinks, how far each of them is in the change log, and what they refused."""

from sqlalchemy import BigInteger, Column, Float, Integer, MetaData, Table, Text, text
from sqlalchemy.types import JSON, Boolean

from forager.ledger.schema.core_tables import metadata

delivery_metadata = MetaData(naming_convention=metadata.naming_convention)

cursors = Table(
    "cursors",
    delivery_metadata,
    Column("sink", Text, primary_key=True),
    Column("position", BigInteger, nullable=False),
    Column("moved_at", BigInteger, nullable=False),
    Column("delivered", BigInteger, nullable=False, server_default="0", comment="changes that the sink has taken"),
    Column("rate", Float, nullable=False, server_default="0", comment="of these per second, when it last moved"),
    Column("failures", Integer, nullable=False, server_default="0", comment="in a row"),
    Column("error", Text, comment="the last"),
    Column("error_at", BigInteger),
    Column("retry_at", BigInteger, comment="NULL: it does not fail"),
    Column("failing_since", BigInteger, comment="NULL: it does not fail"),
)

# Sinks that operators added, beside those of the settings. Addresses and credentials are settings, but a webhook's URL.
sinks = Table(
    "sinks",
    delivery_metadata,
    Column("name", Text, primary_key=True),
    Column("type", Text, nullable=False),
    Column("kinds", JSON, comment="NULL: all"),
    Column("pipelines", JSON, comment="NULL: all"),
    Column("options", JSON, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

# Changes that a sink refused. The cursor has passed them; the log keeps them until an operator has decided.
set_aside = Table(
    "set_aside",
    delivery_metadata,
    Column("sink", Text, primary_key=True),
    Column("change_id", BigInteger, primary_key=True, autoincrement=False),
    Column("tries", Integer, nullable=False),
    Column("error", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("retry", Boolean, nullable=False, server_default=text("false"), comment="to be delivered again"),
)
