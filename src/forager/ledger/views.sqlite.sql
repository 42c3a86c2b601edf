-- Every task as it stands now. Reports and the pipelines' views read this, so that they need not know where a store
-- keeps its open work. A claim is shown while it holds a task and when it has ended one; a queued task is held by none.
CREATE VIEW tasks_now AS
SELECT id, job_id, lane_id, kind, key, state, rank, attempt,
       CASE WHEN state IN (3, 4, 5) THEN claim END AS claim,
       CASE WHEN state IN (3, 4, 5) THEN claimed_at END AS claimed_at,
       session_id, "after", CASE WHEN state IN (0, 1, 2, 8) THEN due END AS due, 0 AS offered,
       price, cost, guessed, crashes, hidden, ended_at, error, reason, error_type, facts, body
FROM tasks;

-- Dead letters. `state = 5` is a literal, so that ix_tasks_failed fits.
CREATE VIEW dead_letters AS
SELECT id, job_id, lane_id, kind, key, state, attempt, claim, claimed_at, due, "after", cost, guessed, error, reason,
       error_type, facts, ended_at, hidden, body
FROM tasks WHERE state = 5;
