"""Followers: tasks that come after others. They are skipped, with their own followers, if their predecessor is not
completed."""

import sqlite3

from forager.ledger.shared.counting import Deltas

_SKIP_FOLLOWERS = """
UPDATE tasks SET state = 6, error = ?, reason = ?, error_type = NULL, ended_at = ? WHERE state = 2 AND "after" = ?
RETURNING id, followed
"""


def skip_followers(
    db: sqlite3.Connection, task: int, job: int, reason: str, deltas: Deltas, now: int, *, message: str | None = None
) -> list[int]:
    """Skip the followers of a task that was not completed, and their followers: nothing would ever release them.

    `message` is their error message; without it, the reason. Returns the tasks that were skipped.
    """
    ended, skipped = [task], list[int]()
    while ended:
        rows = db.execute(_SKIP_FOLLOWERS, (message or reason, reason, now, ended.pop())).fetchall()
        deltas.add(job, queued=-len(rows), skipped=len(rows))
        skipped.extend(number for number, _ in rows)
        ended.extend(number for number, followed in rows if followed)
    return skipped
