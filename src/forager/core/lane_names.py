"""Lanes without tasks: a session owns one while it does something that only one process at a time may do.

Such a lane has an owner, a lease and a pause like any other, but never has tasks, so a worker must not take it.
"""

SINK_LANES = "sink:"
LOOP_LANES = "loop:"
WITHOUT_TASKS = (SINK_LANES, LOOP_LANES)
IS_WITHOUT_TASKS = "(" + " OR ".join(f"name LIKE '{prefix}%'" for prefix in WITHOUT_TASKS) + ")"
"""The same as a condition on `lanes` in SQL."""


def sink_lane(name: str) -> str:
    """The lane that a session holds while it delivers a sink. Pausing the lane pauses the sink."""
    return SINK_LANES + name
