-- Every task as it stands now. Reports and the pipelines' views read this, so that they need not know where a store
-- keeps its open work.
CREATE VIEW tasks_now AS
SELECT id, job_id, lane_id, kind, key, state, rank, attempt, claim, claimed_at, session_id, "after", due, price, cost,
       guessed, crashes, hidden, ended_at, error, facts, body
FROM tasks;
