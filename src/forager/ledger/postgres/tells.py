"""Tasks in the change log: reading those that were noted, and giving their rows a version.

The transaction holds the rows of these tasks, so no other can write the same version.
"""

from forager.ledger.catalog import Catalog
from forager.ledger.postgres.connection import Db, pairs
from forager.ledger.shared.changelog import NewChange
from forager.ledger.shared.counting import Deltas
from forager.ledger.shared.tells import TOLD_TASK, ToldTask, task_change, worth_telling

_TASKS = f"SELECT {TOLD_TASK} FROM tasks WHERE id = ANY($1::bigint[])"
_VERSIONS = """
SELECT x.key, 1 + coalesce((SELECT max(c.version) FROM changes c WHERE c.kind = 'task' AND c.key = x.key
  AND c.body IS NOT NULL), 0) AS next
FROM unnest($1::text[]) AS x(key)
"""


async def told_changes(db: Db, catalog: Catalog, deltas: Deltas) -> list[NewChange]:
    """The rows of the log for the tasks that this transaction has ended or brought back."""
    if not deltas.told:
        return []
    rows = await db.fetch(_TASKS, sorted(deltas.told))
    told = worth_telling(catalog, deltas.told, [ToldTask(*row) for row in rows])
    versions = pairs(await db.fetch(_VERSIONS, list(told)))
    return [task_change(name, row, versions[name]) for name, row in told.items()]
