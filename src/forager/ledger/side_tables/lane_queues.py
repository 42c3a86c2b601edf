"""Brings the queues and scopes of existing lanes up to date with what the pipelines declare.

A lane gets its queue and scope when it is created. One that an earlier version created, or for which a pipeline now
declares another queue or scope, is changed when a process that works starts. Lanes of sites are not declared by name:
one without tasks gets the queue of the pipeline of its next task (`lane_without_task.py`).
"""

from collections.abc import Collection, Mapping

from forager.core.database import Database

_EXACT = "name = :name"
_FAMILY = "substr(name, 1, CAST(:length AS INTEGER)) = :name"
_QUEUE = "UPDATE lanes SET queue = :queue WHERE queue <> :queue AND "
_NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
# A session that owns the lane goes on with it, beside the others. Awake: an owned lane has no moment to wake at.
_SHARE = f"UPDATE lanes SET owner = 0, state = NULL, wake_at = {_NOW} WHERE owner IS DISTINCT FROM 0 AND "
_OWN = f"UPDATE lanes SET owner = NULL, wake_at = {_NOW} WHERE owner = 0 AND "


async def follow_declared(database: Database, queues: Mapping[str, str], shared: Collection[str] = ()) -> None:
    """Set queue and scope of every lane that a pipeline declares, by name or by family (`prefix:*`). `shared`: those
    whose limits are per worker; only PostgreSQL knows the difference."""
    for name, queue in queues.items():
        prefix = name.removesuffix("*")
        which, values = (_EXACT, {"name": name}) if prefix == name else (_FAMILY, {"name": prefix})
        more = {} if prefix == name else {"length": len(prefix)}
        await database.write(_QUEUE + which, {**values, **more, "queue": queue})
        if database.dialect == "postgresql":
            await database.write((_SHARE if name in shared else _OWN) + which, {**values, **more})
