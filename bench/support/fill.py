"""Finished history in bulk: a real job, done through the ledger, is multiplied by SQL.

Every row is a copy of one that the ledger itself wrote (job, tasks, changes), under new numbers; the numbering of the
store goes on after them, as it would have.
"""

from bench.support.noop import noop_catalog, push
from bench.support.options import StoreKind
from bench.support.stores import Store, open_ledger, run_sql
from forager.ledger.schema.core_tables import changes, jobs, tasks

TASKS_EACH = 1_000


async def fill(store: Store, finished: int) -> None:
    """Make the store hold that many finished tasks. Nothing is analysed afterwards."""
    if finished == 0:
        return
    if finished % TASKS_EACH:
        raise ValueError(f"finished tasks come in jobs of {TASKS_EACH}")
    async with open_ledger(store, noop_catalog()) as ledger:
        await push(ledger, jobs=1, tasks_each=TASKS_EACH)
    await run_sql(store, lambda kind: _statements(kind, finished // TASKS_EACH - 1))


def _statements(kind: StoreKind, copies: int) -> list[str]:
    if kind == "sqlite":
        series = f"(WITH RECURSIVE s(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM s WHERE k < {copies}) SELECT k FROM s)"
        name = "substr({0}, 1, 24) || printf('%012x', s.k)"
    else:
        series = f"(SELECT generate_series(1, {copies}) AS k)"
        name = "substr({0}, 1, 24) || lpad(to_hex(s.k), 12, '0')"
    per_job = "(SELECT max(id) FROM changes)"  # there is one job so far: its changes are all there are
    made = [
        _copy(
            "tasks",
            [c.name for c in tasks.columns],
            series,
            {"id": f"t.id + s.k * {TASKS_EACH}", "job_id": "t.job_id + s.k"},
        ),
        _copy(
            "changes",
            [c.name for c in changes.columns],
            series,
            {"id": f"t.id + s.k * {per_job}", "job_id": "t.job_id + s.k", "key": name.format("t.key")},
        ),
        _copy(
            "jobs",
            [c.name for c in jobs.columns],
            series,
            {"id": "t.id + s.k", "public_id": name.format("t.public_id")},
        ),
        "UPDATE tail SET change = (SELECT max(id) FROM changes)",
    ]
    return made + (_go_on_after("jobs", "tasks") if kind == "postgres" else [])


def _copy(table: str, columns: list[str], series: str, changed: dict[str, str]) -> str:
    values = [changed.get(column, f't."{column}"') for column in columns]
    names = ", ".join(f'"{column}"' for column in columns)
    source = f"{series} s CROSS JOIN {table} t ORDER BY s.k, t.id"
    source = f"{series} s CROSS JOIN {table} t ORDER BY s.k, t.id"
    return f"INSERT INTO {table} ({names}) SELECT {', '.join(values)} FROM {source}"


def _go_on_after(*tables: str) -> list[str]:
    """Sequences do not see rows that brought their own numbers."""
    return [f"SELECT setval(pg_get_serial_sequence('{t}', 'id'), (SELECT max(id) FROM {t}))" for t in tables]
