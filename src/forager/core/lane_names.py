"""Lanes that hold no tasks: a session owns one while it does something that one process at a time may do.

Such a lane has an owner, an end of ownership and a pause like any other, but no work is ever in it: a worker must not
take it for a lane that has some.
"""

SINK_LANES = "sink:"
LOOP_LANES = "loop:"
WITHOUT_TASKS = (SINK_LANES, LOOP_LANES)
IS_WITHOUT_TASKS = "(" + " OR ".join(f"name LIKE '{prefix}%'" for prefix in WITHOUT_TASKS) + ")"
"""The same as a condition on `lanes` in SQL."""


def sink_lane(name: str) -> str:
    """The lane that a session holds while it delivers a sink. Pausing the lane pauses the sink."""
    return SINK_LANES + name
