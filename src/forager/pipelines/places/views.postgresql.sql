-- The seed's three tables (PL-13, PL-14), in its columns and words.

CREATE VIEW serper_jobs AS
SELECT
  j.public_id AS job_id,
  j.params ->> 'keyword' AS keyword,
  j.params ->> 'state' AS state,
  CAST(j.params ->> 'pages' AS bigint) AS pages,
  j.batch_size AS batch_size,
  coalesce(CAST(j.params ->> 'dry_run' AS boolean), false) AS dry_run,
  j.concurrency AS concurrency,
  CASE
    WHEN j.state IN ('failed', 'cancelled') OR j.drain = 'cancelled' THEN 'failed'
    WHEN j.state IN ('completed', 'partially_completed') THEN 'done'
    ELSE 'running'
  END AS status,
  to_timestamp(j.created_at / 1000.0) AS created_at,
  to_timestamp(j.started_at / 1000.0) AS started_at,
  to_timestamp(j.finished_at / 1000.0) AS finished_at,
  json_build_object(
    -- A dry run has no tasks, only its estimate.
    'zips', CASE
      WHEN j.total > 0 THEN j.total / CAST(j.params ->> 'pages' AS bigint)
      ELSE coalesce(CAST(j.estimate ->> 'zips' AS bigint), 0)
    END,
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
  split_part(t.key, '/', 1) AS zip,
  CAST(split_part(t.key, '/', 2) AS bigint) AS page,
  split_part(t.key, '/', 1) || ' ' || (j.params ->> 'keyword') AS q,
  CASE
    WHEN t.state = 3 THEN 'processing'
    WHEN t.state = 4 THEN 'success'
    WHEN t.state = 5 THEN 'failed'
    WHEN t.state IN (6, 7) THEN 'skipped'
    ELSE 'queued'
  END AS status,
  'claim-' || (t.claimed_at / 1000) || '-' || lpad(to_hex(t.claim), greatest(9, length(to_hex(t.claim))), '0')
    AS claim_id,
  to_timestamp(t.claimed_at / 1000.0) AS claimed_at,
  CAST(t.facts ->> 'api_status' AS bigint) AS api_status,
  CAST(t.facts ->> 'results_count' AS bigint) AS results_count,
  t.cost AS credits,
  CASE WHEN t.state = 7 THEN 'cancelled' ELSE t.error END AS error,
  to_timestamp(t.ended_at / 1000.0) AS ran_at
FROM tasks_now t JOIN jobs j ON j.id = t.job_id
WHERE t.kind = 'places.query';

-- ingest_id is a UUID of version 8 made of the job's and the row's number: the same row has the same one for ever.
CREATE VIEW serper_places AS
SELECT
  lpad(to_hex(s.job_id >> 16), 8, '0') || '-' || lpad(to_hex(s.job_id & 65535), 4, '0') || '-8001-'
    || to_hex(32768 | (s.id >> 48)) || '-' || lpad(to_hex(s.id & 281474976710655), 12, '0') AS ingest_id,
  coalesce(j.public_id, p.public_id) AS job_id,
  s.source,
  s.source_version,
  to_timestamp(s.first_seen_at / 1000.0) AS ingest_ts,
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
