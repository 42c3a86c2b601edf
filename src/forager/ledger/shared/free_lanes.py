"""Counts the lanes that could be taken, by queue, in SQL that both databases read.

It runs whenever a session takes lanes while some session serves some queues only, so it must not read every lane. The
queues are found by one step in ix_lanes_queue_wake_at each, and the lanes of each are counted up to a limit. Pairs are
compared because PostgreSQL might otherwise walk ix_lanes_wake_at, all lanes of the other queues, for one small queue.
"""

SQLITE_HINT = "INDEXED BY ix_lanes_queue_wake_at"
"""SQLite would read all lanes without an owner through ix_lanes_owner to find a queue."""


def free_by_queue(now: str, most: str, hint: str = "") -> str:
    """Return a query for `queue` and `lanes`: the number of lanes with work and no owner, at most `most`. Queues
    without such lanes are left out. `now` and `most` are placeholders; SQLite needs the `hint`."""
    return f"""
WITH RECURSIVE queues (name) AS (
  SELECT (SELECT l.queue FROM lanes AS l {hint} WHERE l.owner IS NULL ORDER BY l.queue LIMIT 1)
  UNION ALL
  SELECT (SELECT l.queue FROM lanes AS l {hint} WHERE l.owner IS NULL AND l.queue > q.name ORDER BY l.queue LIMIT 1)
  FROM queues q WHERE q.name IS NOT NULL),
free AS MATERIALIZED (
  SELECT q.name AS queue, (
    SELECT count(*) FROM (
      SELECT 1 FROM lanes AS l {hint} WHERE l.owner IS NULL AND NOT l.paused
        AND (l.queue, l.wake_at) >= (q.name, 0) AND (l.queue, l.wake_at) <= (q.name, {now})
      ORDER BY l.queue, l.wake_at LIMIT {most}) a) AS lanes
  FROM queues q WHERE q.name IS NOT NULL)
SELECT queue, lanes FROM free WHERE lanes > 0
"""
