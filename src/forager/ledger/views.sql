-- Every task as it stands now. Reports and the pipelines' views read this, so that they do not depend on where a store
-- keeps its open work. A claim is shown while it holds a task and when it has ended one; a queued task is held by none.
-- On PostgreSQL `tasks` is identity and history, and the state of open work is in `queue`.
CREATE VIEW tasks_now AS
-- @sqlite
SELECT id, job_id, lane_id, kind, key, state, rank, attempt,
       CASE WHEN state IN (3, 4, 5) THEN claim END AS claim,
       CASE WHEN state IN (3, 4, 5) THEN claimed_at END AS claimed_at,
       session_id, "after", CASE WHEN state IN (0, 1, 2, 8) THEN due END AS due, 0 AS offered,
       price, cost, guessed, crashes, hidden, ended_at, error, reason, error_type, facts, body
FROM tasks;
-- @postgresql
SELECT t.id, t.job_id, t.lane_id, t.kind, t.key, coalesce(q.state, t.state) AS state, t.rank,
       coalesce(q.attempt, t.attempt) AS attempt,
       CASE WHEN coalesce(q.state, t.state) IN (3, 4, 5) THEN coalesce(q.claim, t.claim) END AS claim,
       CASE WHEN coalesce(q.state, t.state) IN (3, 4, 5) THEN coalesce(q.claimed_at, t.claimed_at) END AS claimed_at,
       q.session_id, t."after", q.due, coalesce(q.offered, false) AS offered, t.price, t.cost, t.guessed, t.crashes,
       t.hidden, t.ended_at, t.error, t.reason, t.error_type, t.facts, t.body
FROM tasks t LEFT JOIN queue q ON q.task_id = t.id;
-- @both

-- Dead letters. On SQLite `state = 5` is a literal, so that ix_tasks_failed fits; PostgreSQL has a table of them.
CREATE VIEW dead_letters AS
-- @sqlite
SELECT id, job_id, lane_id, kind, key, state, attempt, claim, claimed_at, due, "after", cost, guessed, error, reason,
       error_type, facts, ended_at, hidden, body
FROM tasks WHERE state = 5;
-- @postgresql
SELECT d.task_id AS id, t.job_id, t.lane_id, t.kind, t.key, t.state, t.attempt, t.claim, t.claimed_at,
       CAST(NULL AS bigint) AS due, t."after", t.cost, t.guessed, t.error, t.reason, t.error_type, t.facts,
       d.ended_at, t.hidden, t.body
FROM dead d JOIN tasks t ON t.id = d.task_id;
