-- Every task as it stands now: `tasks` is identity and history, the state of open work is in `queue`. A claim is shown
-- while it holds a task and when it has ended one; a queued task is held by none.
CREATE VIEW tasks_now AS
SELECT t.id, t.job_id, t.lane_id, t.kind, t.key, coalesce(q.state, t.state) AS state, t.rank,
       coalesce(q.attempt, t.attempt) AS attempt,
       CASE WHEN coalesce(q.state, t.state) IN (3, 4, 5) THEN coalesce(q.claim, t.claim) END AS claim,
       CASE WHEN coalesce(q.state, t.state) IN (3, 4, 5) THEN coalesce(q.claimed_at, t.claimed_at) END AS claimed_at,
       q.session_id, t."after", q.due, coalesce(q.offered, false) AS offered, t.price, t.cost, t.guessed, t.crashes,
       t.hidden, t.ended_at, t.error, t.reason, t.error_type, t.facts, t.body
FROM tasks t LEFT JOIN queue q ON q.task_id = t.id;

-- Dead letters, found by an index of their own.
CREATE VIEW dead_letters AS
SELECT d.task_id AS id, t.job_id, t.lane_id, t.kind, t.key, t.state, t.attempt, t.claim, t.claimed_at,
       CAST(NULL AS bigint) AS due, t."after", t.cost, t.guessed, t.error, t.reason, t.error_type, t.facts,
       d.ended_at, t.hidden, t.body
FROM dead d JOIN tasks t ON t.id = d.task_id;
