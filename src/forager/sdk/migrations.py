"""Helpers for the migrations of pipelines: tables of records, indexes, and the default of a time of creation.

A migration describes the schema at one moment, so these functions never change what they create. A ledger that keeps
one more column for every record adds it to existing tables by a migration of its own, and gets a new argument here.

This is the only module of the SDK that imports SQLAlchemy, and only migrations import it.
"""

from typing import Any, Literal

import sqlalchemy as sa

Scope = Literal["world", "job"]

NOW = {
    "sqlite": "(CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))",
    "postgresql": "((extract(epoch FROM clock_timestamp()) * 1000)::bigint)",
}
"""The moment of the INSERT in Unix milliseconds, by the database's name."""


def big_id() -> sa.types.TypeEngine[int]:
    """Return the type of a generated key. A rowid on SQLite needs INTEGER; everywhere else it has 64 bits."""
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def record_columns(scope: Scope = "world") -> list[sa.Column[Any]]:
    """Return the columns that the ledger keeps after a record's own. A row of job scope never changes: it has fewer."""
    seen: list[sa.Column[Any]] = [
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("first_seen_at", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_at", sa.BigInteger(), nullable=False),
        sa.Column("times_seen", sa.BigInteger(), nullable=False),
        sa.Column("gone_at", sa.BigInteger()),
    ]
    if scope == "job":
        return seen
    return [
        *seen,
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.Column("gone_reason", sa.Text()),
        sa.Column("gone_evidence", sa.JSON()),
    ]


def create_record_table(name: str, *columns: sa.Column[Any], key: str, scope: Scope = "world") -> None:
    """Create the table of a record class: its own `columns`, in the order of its fields, and those of the ledger.

    `key` is the class's `key_field`; its column must be declared with `nullable=False`.
    """
    from alembic import op

    of_job = [sa.Column("job_id", sa.BigInteger(), nullable=False)] if scope == "job" else []
    op.create_table(
        name,
        sa.Column("id", big_id(), nullable=False),
        *of_job,
        *columns,
        *record_columns(scope),
        sa.PrimaryKeyConstraint("id", name=f"pk_{name}"),
        sa.UniqueConstraint(key, *(column.name for column in of_job), name=f"uq_{name}_key"),
    )
    if scope == "job":
        op.create_index(f"ix_{name}_job", name, ["job_id", "id"])


def create_index(table: str, *columns: str, where: str | None = None, unique: bool = False) -> None:
    """Create an index as an `Index` of a class declares it; a column may have a direction ("price DESC")."""
    from alembic import op

    condition = None if where is None else sa.text(where)
    names = "_".join(column.split()[0] for column in columns)
    op.create_index(
        f"{'uq' if unique else 'ix'}_{table}_{names}",
        table,
        [sa.text(column) if " " in column else column for column in columns],
        unique=unique,
        sqlite_where=condition,
        postgresql_where=condition,
    )


def stamped(name: str) -> sa.Column[Any]:
    """Return a column that an INSERT without it fills with the present moment (`stamped` of a `TableRow`)."""
    from alembic import op

    now = sa.text(NOW[op.get_bind().dialect.name])
    return sa.Column(name, sa.BigInteger(), nullable=False, server_default=now)
