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
  -- Whole hours: both operands of the division are integers.
  CAST(coalesce(max(0, l.confidence_base - l.decay_rate
    * (max(0, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - l.confidence_updated_at) / 3600000)), 0) AS INTEGER) AS freshness_confidence,
  strftime('%Y-%m-%dT%H:%M:%fZ', l.confidence_updated_at / 1000.0, 'unixepoch') AS confidence_updated_at,
  CASE
    WHEN l.gone_at IS NULL AND l.confidence_updated_at IS NOT NULL
      AND (l.verify_at IS NULL OR l.verify_at <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)) THEN 'pending'
    ELSE l.verification_status
  END AS verification_status,
  strftime('%Y-%m-%dT%H:%M:%fZ', l.verified_at / 1000.0, 'unixepoch') AS verified_at,
  l.times_seen,
  strftime('%Y-%m-%dT%H:%M:%fZ', l.first_seen_at / 1000.0, 'unixepoch') AS first_seen_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', l.last_seen_at / 1000.0, 'unixepoch') AS last_seen_at,
  l.market_id,
  l.gone_at IS NULL AS is_active
FROM listings l;

-- The free units of each apartment, as its source shows them.
CREATE VIEW apartment_units AS
SELECT
  l.id AS apartment_id,
  json_extract(u.value, '$.unit') AS unit,
  json_extract(u.value, '$.beds') AS beds,
  json_extract(u.value, '$.baths') AS baths,
  json_extract(u.value, '$.rent') AS rent,
  json_extract(u.value, '$.area') AS area,
  json_extract(u.value, '$.available') AS available_date
FROM listings l, json_each(l.units) u;

CREATE VIEW scrape_jobs AS
SELECT
  coalesce(s.job_id, s.id) AS id,
  s.market_id,
  CASE WHEN s.status = 'running' AND s.ended_at IS NOT NULL THEN 'cancelled' ELSE s.status END AS status,
  CASE WHEN s.message IS NULL THEN s.reason ELSE s.reason || ': ' || s.message END AS reason,
  strftime('%Y-%m-%dT%H:%M:%fZ', s.started_at / 1000.0, 'unixepoch') AS started_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', s.ended_at / 1000.0, 'unixepoch') AS completed_at,
  s.found,
  s.normalised,
  s.errors,
  s.new,
  s.updated,
  s.merged,
  s.skipped,
  s.api_ms,
  s.cost_usd / 10000.0 AS cost_usd,
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
