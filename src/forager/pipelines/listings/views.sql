-- The seed's tables (LI-13), in its columns and words. Confidence is computed when the view is read.

CREATE VIEW apartments AS
SELECT
  l.id,
  l.listing_key,
  l.title,
  l.address,
  l.unit,
  l.city,
  l.state,
  l.zip,
  l.latitude,
  l.longitude,
  l.rent_min,
  l.rent_max,
  l.beds_min,
  l.beds_max,
  l.baths_min,
  l.baths_max,
  l.area_min,
  l.area_max,
  l.amenities,
  l.photos,
  l.phone,
  l.available_date,
  l.source_url,
-- @sqlite
  -- Whole hours: both operands of the division are integers.
  CAST(coalesce(max(0, l.confidence_base - l.decay_rate
    * (max(0, CAST($now AS INTEGER) - l.confidence_updated_at) / 3600000)), 0) AS INTEGER) AS freshness_confidence,
-- @postgresql
  CAST(coalesce(greatest(0, l.confidence_base - l.decay_rate
    * floor(greatest(0, $now - l.confidence_updated_at) / 3600000)), 0) AS integer) AS freshness_confidence,
-- @both
  $time(l.confidence_updated_at) AS confidence_updated_at,
  CASE
    WHEN l.gone_at IS NULL AND l.confidence_updated_at IS NOT NULL
-- @sqlite
      AND (l.verify_at IS NULL OR l.verify_at <= CAST($now AS INTEGER)) THEN 'pending'
-- @postgresql
      AND (l.verify_at IS NULL OR l.verify_at <= $now) THEN 'pending'
-- @both
    ELSE l.verification_status
  END AS verification_status,
  $time(l.verified_at) AS verified_at,
  l.times_seen,
  $time(l.first_seen_at) AS first_seen_at,
  $time(l.last_seen_at) AS last_seen_at,
  l.market_id,
-- @sqlite
  l.gone_at IS NULL AS is_active
-- @postgresql
  CASE WHEN l.gone_at IS NULL THEN 1 ELSE 0 END AS is_active
-- @both
FROM listings l;

-- The free units of each apartment, as its source shows them.
CREATE VIEW apartment_units AS
SELECT
  l.id AS apartment_id,
-- @sqlite
  json_extract(u.value, '$.unit') AS unit,
  json_extract(u.value, '$.beds') AS beds,
  json_extract(u.value, '$.baths') AS baths,
  json_extract(u.value, '$.rent') AS rent,
  json_extract(u.value, '$.area') AS area,
  json_extract(u.value, '$.available') AS available_date
FROM listings l, json_each(l.units) u;
-- @postgresql
  u.value ->> 'unit' AS unit,
  CAST(u.value ->> 'beds' AS double precision) AS beds,
  CAST(u.value ->> 'baths' AS double precision) AS baths,
  CAST(u.value ->> 'rent' AS double precision) AS rent,
  CAST(u.value ->> 'area' AS double precision) AS area,
  u.value ->> 'available' AS available_date
FROM listings l CROSS JOIN LATERAL json_array_elements(l.units) AS u (value);
-- @both

CREATE VIEW scrape_jobs AS
SELECT
  coalesce(s.job_id, s.id) AS id,
  s.market_id,
  CASE WHEN s.status = 'running' AND s.ended_at IS NOT NULL THEN 'cancelled' ELSE s.status END AS status,
  CASE WHEN s.message IS NULL THEN s.reason ELSE s.reason || ': ' || s.message END AS reason,
  $time(s.started_at) AS started_at,
  $time(s.ended_at) AS completed_at,
  s.found,
  s.normalised,
  s.errors,
  s.new,
  s.updated,
  s.merged,
  s.skipped,
  s.api_ms,
-- @sqlite
  s.cost_usd / 10000.0 AS cost_usd,
-- @postgresql
  CAST(s.cost_usd / 10000.0 AS numeric(12, 4)) AS cost_usd,
-- @both
  s.complete,
  s.id AS scrape_id,
  -- The columns of the release before, for one release.
  s.found AS listings_found,
  s.normalised AS listings_normalised,
  s.errors AS listings_rejected,
  s.new AS listings_new,
  s.updated AS listings_updated,
  s.merged AS listings_merged,
  s.skipped AS listings_skipped
FROM market_scrapes s;
-- @postgresql

-- Operators write these two: an INSERT need not name the schema of the tables.
CREATE VIEW public.market_configs AS SELECT * FROM market_configs;

CREATE VIEW public.data_sources AS SELECT * FROM data_sources;
