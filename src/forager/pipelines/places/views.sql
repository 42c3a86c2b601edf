-- The seed's three tables (PL-13, PL-14), in its columns and words, each on a wider view that a warehouse mirrors and
-- `forager restore` reads back: `details` is what these columns leave out, `job_number` and `item` lead to an index.
-- SQLite shows times as ISO 8601 in UTC.

CREATE VIEW places_jobs AS
SELECT
  j.public_id AS job_id,
  j.params ->> 'keyword' AS keyword,
  j.params ->> 'state' AS state,
  $int(j.params ->> 'pages') AS pages,
  j.batch_size AS batch_size,
-- @sqlite
  coalesce(j.params ->> 'dry_run', 0) AS dry_run,
-- @postgresql
  coalesce(CAST(j.params ->> 'dry_run' AS boolean), false) AS dry_run,
-- @both
  j.concurrency AS concurrency,
  CASE
    WHEN j.state IN ('failed', 'cancelled') OR j.drain = 'cancelled' THEN 'failed'
    WHEN j.state IN ('completed', 'partially_completed') THEN 'done'
    ELSE 'running'
  END AS status,
  $time(j.created_at) AS created_at,
  $time(j.started_at) AS started_at,
  $time(j.finished_at) AS finished_at,
  $object(
    -- A dry run has no tasks, only its estimate.
    'zips', CASE WHEN j.total > 0 THEN j.total / (($int(j.params ->> 'pages')
        - coalesce($int(j.params ->> 'first_page'), 1) + 1)
-- @sqlite
        * (1 + coalesce(json_array_length(j.params, '$.more_keywords'), 0)))
-- @postgresql
        * (1 + CASE WHEN json_typeof(j.params -> 'more_keywords') = 'array'
          THEN json_array_length(j.params -> 'more_keywords') ELSE 0 END))
-- @both
      ELSE coalesce($int(j.estimate ->> 'zips'), 0) END,
    'queries', j.total,
    'successes', j.completed,
    'failures', j.failed,
    'places', j.records,
    'credits', j.spent,
    'skipped', j.skipped + j.cancelled
  ) AS totals,
  $object(
    'number', j.id, 'state', j.state, 'reason', j.reason, 'drain', j.drain, 'schedule', j.schedule, 'turn', j.turn,
    'batch_size', j.batch_size, 'concurrency', j.concurrency, 'max_cost', j.max_cost, 'created_at', j.created_at,
    'started_at', j.started_at, 'finished_at', j.finished_at, 'params', $json(j.params), 'estimate', $json(j.estimate)
  ) AS details
FROM jobs j
WHERE j.pipeline = 'places';

CREATE VIEW serper_jobs AS
SELECT job_id, keyword, state, pages, batch_size, dry_run, concurrency, status, created_at, started_at, finished_at,
  totals
FROM places_jobs;

-- ZIP (or area), page and a further keyword are read from the task's key, `<zip>/<page>` or `<zip>/<page>/<keyword>`.
CREATE VIEW places_queries AS
SELECT
  t.job_id AS job_number,
  t.key AS item,
  j.public_id AS job_id,
-- @sqlite
  substr(t.key, 1, instr(t.key, '/') - 1) AS zip,
  CAST(substr(t.key, instr(t.key, '/') + 1) AS INTEGER) AS page,
  CASE WHEN t.kind = 'places.query' THEN substr(t.key, 1, instr(t.key, '/') - 1) || ' ' ELSE '' END
    || CASE WHEN instr(substr(t.key, instr(t.key, '/') + 1), '/') > 0
      THEN substr(substr(t.key, instr(t.key, '/') + 1), instr(substr(t.key, instr(t.key, '/') + 1), '/') + 1)
      ELSE j.params ->> 'keyword' END AS q,
-- @postgresql
  split_part(t.key, '/', 1) AS zip,
  CAST(split_part(t.key, '/', 2) AS bigint) AS page,
  CASE WHEN t.kind = 'places.query' THEN split_part(t.key, '/', 1) || ' ' ELSE '' END
    || CASE WHEN split_part(t.key, '/', 3) <> ''
      THEN substr(t.key, length(split_part(t.key, '/', 1)) + length(split_part(t.key, '/', 2)) + 3)
      ELSE j.params ->> 'keyword' END AS q,
-- @both
  CASE
    WHEN t.state = 3 THEN 'processing'
    WHEN t.state = 4 THEN 'success'
    WHEN t.state = 5 THEN 'failed'
    WHEN t.state IN (6, 7) THEN 'skipped'
    ELSE 'queued'
  END AS status,
-- @sqlite
  'claim-' || (t.claimed_at / 1000) || '-' || printf('%09x', t.claim) AS claim_id,
-- @postgresql
  'claim-' || (t.claimed_at / 1000) || '-' || lpad(to_hex(t.claim), greatest(9, length(to_hex(t.claim))), '0')
    AS claim_id,
-- @both
  $time(t.claimed_at) AS claimed_at,
  $int(t.facts ->> 'api_status') AS api_status,
  $int(t.facts ->> 'results_count') AS results_count,
  t.cost AS credits,
  CASE WHEN t.state = 7 THEN 'cancelled' ELSE t.error END AS error,
  $time(t.ended_at) AS ran_at,
  $object(
    'id', t.id, 'kind', t.kind, 'key', t.key, 'after', t."after", 'rank', t.rank, 'price', t.price, 'state', t.state,
    'attempt', t.attempt, 'claim', t.claim, 'claimed_at', t.claimed_at, 'ended_at', t.ended_at, 'cost', t.cost,
    'guessed', t.guessed, 'error', t.error, 'reason', t.reason, 'error_type', t.error_type, 'hidden', t.hidden,
    'facts', $json(t.facts), 'input', $text(t.body)
  ) AS details
FROM tasks_now t JOIN jobs j ON j.id = t.job_id
WHERE t.kind IN ('places.query', 'places.map_query');

CREATE VIEW serper_queries AS
SELECT job_id, zip, page, q, status, claim_id, claimed_at, api_status, results_count, credits, error, ran_at
FROM places_queries;

-- ingest_id is a UUID of version 8 made of the job's and the row's number: the same row has the same one for ever.
CREATE VIEW places_sightings AS
SELECT
  s.job_id AS job_number,
  s.place_uid AS item,
  s.id AS row_number,
-- @sqlite
  printf('%08x-%04x-8001-%04x-%012x', s.job_id >> 16, s.job_id & 65535, 32768 | (s.id >> 48), s.id & 281474976710655)
    AS ingest_id,
-- @postgresql
  lpad(to_hex(s.job_id >> 16), 8, '0') || '-' || lpad(to_hex(s.job_id & 65535), 4, '0') || '-8001-'
    || to_hex(32768 | (s.id >> 48)) || '-' || lpad(to_hex(s.id & 281474976710655), 12, '0') AS ingest_id,
-- @both
  coalesce(j.public_id, p.public_id) AS job_id,
  s.source,
  s.source_version,
  $time(s.first_seen_at) AS ingest_ts,
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
  s.error,
  $object(
    'id', s.id, 'position', s.position, 'version', s.version, 'first_seen_at', s.first_seen_at,
    'last_seen_at', s.last_seen_at, 'times_seen', s.times_seen
  ) AS details
-- A sighting outlives its job.
FROM sightings s LEFT JOIN jobs j ON j.id = s.job_id LEFT JOIN past_jobs p ON p.id = s.job_id;

CREATE VIEW serper_places AS
SELECT ingest_id, job_id, source, source_version, ingest_ts, keyword, state, zip, page, place_uid, payload, api_status,
  api_ms, results_count, credits, error
FROM places_sightings;
