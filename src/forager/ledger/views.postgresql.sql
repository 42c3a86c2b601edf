-- Every task as it stands now: `tasks` is identity and history, the state of open work is in `queue`. A claim is shown
-- while it holds a task and when it has ended one; a queued task is held by none.
CREATE VIEW tasks_now AS
SELECT t.id, t.job_id, t.lane_id, t.kind, t.key, coalesce(q.state, t.state) AS state, t.rank,
       coalesce(q.attempt, t.attempt) AS attempt,
       CASE WHEN coalesce(q.state, t.state) IN (3, 4, 5) THEN coalesce(q.claim, t.claim) END AS claim,
       CASE WHEN coalesce(q.state, t.state) IN (3, 4, 5) THEN coalesce(q.claimed_at, t.claimed_at) END AS claimed_at,
       q.session_id, t."after", q.due, t.price, t.cost, t.guessed, t.crashes, t.hidden, t.ended_at, t.error, t.facts,
       t.body
FROM tasks t LEFT JOIN queue q ON q.task_id = t.id;
