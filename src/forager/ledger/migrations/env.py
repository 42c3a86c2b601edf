"""Run by Alembic, both for `forager db …` and for plain `alembic` with the repository's alembic.ini.

Views are dropped before and made again after the migrations, in the same transaction. There is a branch of migrations
for the ledger and one for each pipeline, so that a pipeline of another package can bring its own. For plain `alembic`,
`head` therefore means all heads, and `revision --autogenerate` writes a migration for each branch that has changed.
"""

import os
import re
from pathlib import Path
from typing import Any

from alembic import context
from alembic.operations import ops
from alembic.util import CommandError
from sqlalchemy import Connection

from forager.ledger.schema.connect import Store, create_namespace, in_transaction, locate, parse_store
from forager.ledger.schema.migrate import alone, migrate_connection


def run(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        create_namespace(connection)
    places = [Path(place) for place in context.script.version_locations or ()]
    command, revision = asked()
    more: dict[str, Any] = {}
    if command == "upgrade" and revision == "head":
        more["fn"] = lambda now, _: context.script._upgrade_revs("heads", now)  # noqa: SLF001 - as `upgrade` itself does
    elif command == "downgrade" and re.fullmatch(r"-[0-9]+", revision) and len(context.script.get_heads()) > 1:
        more["fn"] = lambda *_: refuse_without_branch(revision)
    elif command == "revision":
        more = comparison(connection, places)
    context.configure(
        connection=connection,
        transactional_ddl=True,  # Alembic assumes that SQLite cannot; with our BEGIN it can
        transaction_per_migration=False,
        render_as_batch=True,
        **more,
    )
    if command == "revision":  # it changes nothing in the store
        context.run_migrations()
    else:
        migrate_connection(connection, places, context.run_migrations)


def asked() -> tuple[str, str]:
    """Return the command of plain `alembic` and its revision; empty texts if our own program runs the migrations."""
    given = context.config.cmd_opts
    if given is None or not hasattr(given, "cmd"):
        return "", ""
    return given.cmd[0].__name__, str(getattr(given, "revision", "") or "")


def refuse_without_branch(revision: str) -> Any:
    branches = sorted({name for head in context.script.get_revisions("heads") for name in head.branch_labels})
    raise CommandError(
        f"downgrade {revision}: each of the branches {', '.join(branches)} has a newest migration, and no order among "
        f"them is stored. Name the branch: alembic downgrade {branches[0]}@{revision}"
    )


def comparison(connection: Connection, places: list[Path]) -> dict[str, Any]:
    """Return the options for `revision --autogenerate`: all tables, and a migration for each branch that differs."""
    # This script is a program of its own, so it builds the pipelines as the application does.
    from forager.app.config import new_settings
    from forager.app.features import all_features
    from forager.app.wiring import build_pipelines
    from forager.ledger.catalog import Catalog
    from forager.ledger.schema.core_tables import SQLITE_QUEUE_INDEXES
    from forager.ledger.schema.migrate import locations
    from forager.ledger.schema.tables import full_schema

    pipelines = build_pipelines(new_settings(), all_features())
    wanted = full_schema(Catalog(pipelines), connection.dialect.name)
    by_hand = {statement.split()[2] for statement in SQLITE_QUEUE_INDEXES}
    owners: dict[str, Path] = {}
    for pipeline in pipelines:
        for table in (*(record.table for record in pipeline.records), *(row.table for row in pipeline.tables)):
            owners[table] = locations([pipeline])[-1]

    directed = {
        i.name for table in wanted.tables.values() for i in table.indexes if len(i.columns) < len(i.expressions)
    }

    def is_compared(_: Any, name: str | None, kind: str, reflected: bool, other: Any) -> bool:
        """Leave out what other statements create (indexes of the queue on SQLite, the tables of full-text indexes), and
        on SQLite an index with a descending column, which is read back without its direction."""
        if reflected and (name in by_hand or (kind == "table" and name not in wanted.tables)):
            return False
        return not (kind == "index" and other is not None and name in directed and connection.dialect.name == "sqlite")

    def by_branch(_: Any, __: Any, directives: list[Any]) -> None:
        (script,) = directives
        if getattr(context.config.cmd_opts, "head", None) not in (None, "head"):
            return  # the caller has chosen a branch
        changes: dict[Path, tuple[list[Any], list[Any]]] = {}
        for each, place in ((script.upgrade_ops, 0), (script.downgrade_ops, 1)):
            for operation in each.ops:
                owner = owners.get(operation.table_name, places[0])
                changes.setdefault(owner, ([], []))[place].append(operation)
        directives[:] = [_migration(script, owner, *both) for owner, both in changes.items()]

    return {
        "target_metadata": wanted,
        "include_object": is_compared,
        "process_revision_directives": by_branch,
        "compare_type": False,  # each store has its own types for the same column
    }


def _migration(script: Any, place: Path, upgrade: list[Any], downgrade: list[Any]) -> ops.MigrationScript:
    """Return the next migration of a branch, numbered as those before it."""
    (newest,) = (head for head in context.script.get_revisions("heads") if Path(head.path).parent == place)
    branch, _, number = newest.revision.rpartition("_")
    return ops.MigrationScript(
        rev_id=f"{branch}_{int(number) + 1:04}",
        message=script.message,
        upgrade_ops=ops.UpgradeOps(ops=upgrade),
        downgrade_ops=ops.DowngradeOps(ops=downgrade),
        head=newest.revision,
        version_path=str(place),
        imports=script.imports,
    )


def store() -> Store:
    """For plain `alembic`: `-x store=…`, else FORAGER_DATABASE_URL, else the embedded store in the data folder."""
    named = context.get_x_argument(as_dictionary=True).get("store") or os.environ.get("FORAGER_DATABASE_URL")
    if named and isinstance(parse_store(named), str):
        return locate(named, os.environ.get("FORAGER_DATABASE_SCHEMA") or "forager")
    return named or Path(os.environ.get("FORAGER_HOME") or ".forager") / "ledger.db"


if context.is_offline_mode():
    raise SystemExit("Forager's migrations look at the store they change: run them without --sql.")

given = context.config.attributes.get("connection")
if given is None:
    with alone(store()):
        in_transaction(store(), run)
else:
    run(given)
