"""Brings the queues of existing lanes up to date with what the pipelines declare.

A lane gets its queue when it is created. One that an earlier version created, or for which a pipeline now declares
another queue, is changed when a process that works starts. Lanes of sites are not declared by name: one without tasks
gets the queue of the pipeline of its next task (`lane_without_task.py`).
"""

from collections.abc import Mapping

from forager.core.database import Database

_EXACT = "UPDATE lanes SET queue = :queue WHERE name = :name AND queue <> :queue"
_FAMILY = "UPDATE lanes SET queue = :queue WHERE substr(name, 1, :length) = :name AND queue <> :queue"


async def follow_declared(database: Database, queues: Mapping[str, str]) -> None:
    """Set the queue of every lane that a pipeline declares, by name or by family (`prefix:*`)."""
    for name, queue in queues.items():
        prefix = name.removesuffix("*")
        if prefix == name:
            await database.write(_EXACT, {"name": name, "queue": queue})
        else:
            await database.write(_FAMILY, {"name": prefix, "length": len(prefix), "queue": queue})
