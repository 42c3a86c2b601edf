-- The seed's three tables (PL-13, PL-14), in its columns and words. Times are ISO 8601 in UTC.

CREATE VIEW serper_jobs AS
SELECT
  j.public_id AS job_id,
  j.params ->> 'keyword' AS keyword,
  j.params ->> 'state' AS state,
  j.params ->> 'pages' AS pages,
  j.batch_size AS batch_size,
  coalesce(j.params ->> 'dry_run', 0) AS dry_run,
  j.concurrency AS concurrency,
  CASE
    WHEN j.state IN ('failed', 'cancelled') OR j.drain = 'cancelled' THEN 'failed'
    WHEN j.state IN ('completed', 'partially_completed') THEN 'done'
    ELSE 'running'
  END AS status,
  strftime('%Y-%m-%dT%H:%M:%fZ', j.created_at / 1000.0, 'unixepoch') AS created_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', j.started_at / 1000.0, 'unixepoch') AS started_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', j.finished_at / 1000.0, 'unixepoch') AS finished_at,
  json_object(
    -- A dry run has no tasks, only its estimate.
    'zips', CASE WHEN j.total > 0 THEN j.total / (j.params ->> 'pages') ELSE coalesce(j.estimate ->> 'zips', 0) END,
    'queries', j.total,
    'successes', j.completed,
    'failures', j.failed,
    'places', j.records,
    'credits', j.spent,
    'skipped', j.skipped + j.cancelled
  ) AS totals
FROM jobs j
WHERE j.pipeline = 'places';

-- ZIP and page are read from the task's key, `<zip>/<page>`.
CREATE VIEW serper_queries AS
SELECT
  j.public_id AS job_id,
  substr(t.key, 1, instr(t.key, '/') - 1) AS zip,
  CAST(substr(t.key, instr(t.key, '/') + 1) AS INTEGER) AS page,
  substr(t.key, 1, instr(t.key, '/') - 1) || ' ' || (j.params ->> 'keyword') AS q,
  CASE
    WHEN t.state = 3 THEN 'processing'
    WHEN t.state = 4 THEN 'success'
    WHEN t.state = 5 THEN 'failed'
    WHEN t.state IN (6, 7) THEN 'skipped'
    ELSE 'queued'
  END AS status,
  'claim-' || (t.claimed_at / 1000) || '-' || printf('%09x', t.claim) AS claim_id,
  strftime('%Y-%m-%dT%H:%M:%fZ', t.claimed_at / 1000.0, 'unixepoch') AS claimed_at,
  t.facts ->> 'api_status' AS api_status,
  t.facts ->> 'results_count' AS results_count,
  t.cost AS credits,
  CASE WHEN t.state = 7 THEN 'cancelled' ELSE t.error END AS error,
  strftime('%Y-%m-%dT%H:%M:%fZ', t.ended_at / 1000.0, 'unixepoch') AS ran_at
FROM tasks_now t JOIN jobs j ON j.id = t.job_id
WHERE t.kind = 'places.query';

-- ingest_id is a UUID of version 8 made of the job's and the row's number: the same row has the same one for ever.
CREATE VIEW serper_places AS
SELECT
  printf('%08x-%04x-8001-%04x-%012x', s.job_id >> 16, s.job_id & 65535, 32768 | (s.id >> 48), s.id & 281474976710655)
    AS ingest_id,
  coalesce(j.public_id, p.public_id) AS job_id,
  s.source,
  s.source_version,
  strftime('%Y-%m-%dT%H:%M:%fZ', s.first_seen_at / 1000.0, 'unixepoch') AS ingest_ts,
  s.keyword,
  s.state,
  s.zip,
  s.page,
  s.place_uid,
  s.payload,
  s.api_status,
  s.api_ms,
  s.results_count,
  s.credits,
  s.error
-- A sighting outlives its job.
FROM sightings s LEFT JOIN jobs j ON j.id = s.job_id LEFT JOIN past_jobs p ON p.id = s.job_id;
