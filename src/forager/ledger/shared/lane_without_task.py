"""Finds out whether a lane without a decided queue may still get one.

A lane that is first mentioned by a pause, a redirect or a request has no task whose pipeline could decide on its queue,
so it is in the default one. The first task that arrives moves it to the queue of its pipeline.
"""


def has_no_task(table: str) -> str:
    """Return a condition on `lanes l`: nothing in it is ready, waiting, suspect or running. `table` holds the open
    tasks. Each part reads one index; the tasks that run in a lane belong to its owner's session."""
    of_lane = f"SELECT 1 FROM {table} t WHERE t.lane_id = l.id AND t.state"
    parts = [f"{of_lane} = {state}" for state in (0, 1, 8)] + [f"{of_lane} = 3 AND t.session_id = l.owner"]
    return " AND ".join(f"NOT EXISTS ({part})" for part in parts)
