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

-- The rows of `listing_units`, by which searches find units: kept current with every write of a listing, whatever makes
-- it (scrapes, merges, splits, a restore). A value that a unit lacks is the building's, if that has only one, or if none
-- of its units shows it. A listing without units has one row with its ranges.
-- @sqlite
CREATE TRIGGER listing_units_new AFTER INSERT ON listings BEGIN
INSERT INTO listing_units
  (listing_id, number, rent, beds_low, beds_high, baths_low, baths_high, rent_low, rent_high, area_low, area_high)
SELECT
  NEW.id,
  u.number,
  u.rent,
  coalesce(u.beds, CASE WHEN u.beds_min = u.beds_max OR count(u.beds) OVER () = 0 THEN u.beds_min END),
  coalesce(u.beds, CASE WHEN u.beds_min = u.beds_max OR count(u.beds) OVER () = 0 THEN u.beds_max END),
  coalesce(u.baths, CASE WHEN u.baths_min = u.baths_max OR count(u.baths) OVER () = 0 THEN u.baths_min END),
  coalesce(u.baths, CASE WHEN u.baths_min = u.baths_max OR count(u.baths) OVER () = 0 THEN u.baths_max END),
  coalesce(u.rent, CASE WHEN u.rent_min = u.rent_max OR count(u.rent) OVER () = 0 THEN u.rent_min END),
  coalesce(u.rent, CASE WHEN u.rent_min = u.rent_max OR count(u.rent) OVER () = 0 THEN u.rent_max END),
  coalesce(u.area, CASE WHEN u.area_min = u.area_max OR count(u.area) OVER () = 0 THEN u.area_min END),
  coalesce(u.area, CASE WHEN u.area_min = u.area_max OR count(u.area) OVER () = 0 THEN u.area_max END)
FROM (
  SELECT
    j.key AS number,
    json_extract(j.value, '$.beds') AS beds,
    json_extract(j.value, '$.baths') AS baths,
    json_extract(j.value, '$.rent') AS rent,
    json_extract(j.value, '$.area') AS area,
    NEW.beds_min AS beds_min, NEW.beds_max AS beds_max, NEW.baths_min AS baths_min, NEW.baths_max AS baths_max,
    NEW.rent_min AS rent_min, NEW.rent_max AS rent_max, NEW.area_min AS area_min, NEW.area_max AS area_max
  FROM json_each(NEW.units) j WHERE json_type(NEW.units) = 'array'
) u
;INSERT INTO listing_units
  (listing_id, number, rent, beds_low, beds_high, baths_low, baths_high, rent_low, rent_high, area_low, area_high)
SELECT NEW.id, 0, NULL, NEW.beds_min, NEW.beds_max, NEW.baths_min, NEW.baths_max, 
  NEW.rent_min, NEW.rent_max, NEW.area_min, NEW.area_max
WHERE coalesce(json_array_length(NEW.units), 0) = 0
; END;

CREATE TRIGGER listing_units_changed
AFTER UPDATE OF units, beds_min, beds_max, baths_min, baths_max, rent_min, rent_max, area_min, area_max ON listings
WHEN NEW.units IS NOT OLD.units
  OR NEW.beds_min IS NOT OLD.beds_min
  OR NEW.beds_max IS NOT OLD.beds_max
  OR NEW.baths_min IS NOT OLD.baths_min
  OR NEW.baths_max IS NOT OLD.baths_max
  OR NEW.rent_min IS NOT OLD.rent_min
  OR NEW.rent_max IS NOT OLD.rent_max
  OR NEW.area_min IS NOT OLD.area_min
  OR NEW.area_max IS NOT OLD.area_max BEGIN
DELETE FROM listing_units WHERE listing_id = OLD.id
;INSERT INTO listing_units
  (listing_id, number, rent, beds_low, beds_high, baths_low, baths_high, rent_low, rent_high, area_low, area_high)
SELECT
  NEW.id,
  u.number,
  u.rent,
  coalesce(u.beds, CASE WHEN u.beds_min = u.beds_max OR count(u.beds) OVER () = 0 THEN u.beds_min END),
  coalesce(u.beds, CASE WHEN u.beds_min = u.beds_max OR count(u.beds) OVER () = 0 THEN u.beds_max END),
  coalesce(u.baths, CASE WHEN u.baths_min = u.baths_max OR count(u.baths) OVER () = 0 THEN u.baths_min END),
  coalesce(u.baths, CASE WHEN u.baths_min = u.baths_max OR count(u.baths) OVER () = 0 THEN u.baths_max END),
  coalesce(u.rent, CASE WHEN u.rent_min = u.rent_max OR count(u.rent) OVER () = 0 THEN u.rent_min END),
  coalesce(u.rent, CASE WHEN u.rent_min = u.rent_max OR count(u.rent) OVER () = 0 THEN u.rent_max END),
  coalesce(u.area, CASE WHEN u.area_min = u.area_max OR count(u.area) OVER () = 0 THEN u.area_min END),
  coalesce(u.area, CASE WHEN u.area_min = u.area_max OR count(u.area) OVER () = 0 THEN u.area_max END)
FROM (
  SELECT
    j.key AS number,
    json_extract(j.value, '$.beds') AS beds,
    json_extract(j.value, '$.baths') AS baths,
    json_extract(j.value, '$.rent') AS rent,
    json_extract(j.value, '$.area') AS area,
    NEW.beds_min AS beds_min, NEW.beds_max AS beds_max, NEW.baths_min AS baths_min, NEW.baths_max AS baths_max,
    NEW.rent_min AS rent_min, NEW.rent_max AS rent_max, NEW.area_min AS area_min, NEW.area_max AS area_max
  FROM json_each(NEW.units) j WHERE json_type(NEW.units) = 'array'
) u
;INSERT INTO listing_units
  (listing_id, number, rent, beds_low, beds_high, baths_low, baths_high, rent_low, rent_high, area_low, area_high)
SELECT NEW.id, 0, NULL, NEW.beds_min, NEW.beds_max, NEW.baths_min, NEW.baths_max, 
  NEW.rent_min, NEW.rent_max, NEW.area_min, NEW.area_max
WHERE coalesce(json_array_length(NEW.units), 0) = 0
; END;

CREATE TRIGGER listing_units_gone AFTER DELETE ON listings BEGIN DELETE FROM listing_units WHERE listing_id = OLD.id
; END;
-- @postgresql
CREATE FUNCTION listing_units_follow() RETURNS trigger LANGUAGE plpgsql SET search_path = {schema} AS $$
BEGIN
IF TG_OP <> 'INSERT' THEN
DELETE FROM listing_units WHERE listing_id = OLD.id;
END IF;
IF TG_OP <> 'DELETE' THEN
INSERT INTO listing_units
  (listing_id, number, rent, beds_low, beds_high, baths_low, baths_high, rent_low, rent_high, area_low, area_high)
SELECT
  NEW.id,
  u.number,
  u.rent,
  coalesce(u.beds, CASE WHEN u.beds_min = u.beds_max OR count(u.beds) OVER () = 0 THEN u.beds_min END),
  coalesce(u.beds, CASE WHEN u.beds_min = u.beds_max OR count(u.beds) OVER () = 0 THEN u.beds_max END),
  coalesce(u.baths, CASE WHEN u.baths_min = u.baths_max OR count(u.baths) OVER () = 0 THEN u.baths_min END),
  coalesce(u.baths, CASE WHEN u.baths_min = u.baths_max OR count(u.baths) OVER () = 0 THEN u.baths_max END),
  coalesce(u.rent, CASE WHEN u.rent_min = u.rent_max OR count(u.rent) OVER () = 0 THEN u.rent_min END),
  coalesce(u.rent, CASE WHEN u.rent_min = u.rent_max OR count(u.rent) OVER () = 0 THEN u.rent_max END),
  coalesce(u.area, CASE WHEN u.area_min = u.area_max OR count(u.area) OVER () = 0 THEN u.area_min END),
  coalesce(u.area, CASE WHEN u.area_min = u.area_max OR count(u.area) OVER () = 0 THEN u.area_max END)
FROM (
  SELECT
    j.key AS number,
    CAST(j.value ->> 'beds' AS double precision) AS beds,
    CAST(j.value ->> 'baths' AS double precision) AS baths,
    CAST(j.value ->> 'rent' AS double precision) AS rent,
    CAST(j.value ->> 'area' AS double precision) AS area,
    NEW.beds_min AS beds_min, NEW.beds_max AS beds_max, NEW.baths_min AS baths_min, NEW.baths_max AS baths_max,
    NEW.rent_min AS rent_min, NEW.rent_max AS rent_max, NEW.area_min AS area_min, NEW.area_max AS area_max
  FROM json_array_elements(NEW.units) WITH ORDINALITY AS j (value, key)
) u;
INSERT INTO listing_units
  (listing_id, number, rent, beds_low, beds_high, baths_low, baths_high, rent_low, rent_high, area_low, area_high)
SELECT NEW.id, 0, NULL, NEW.beds_min, NEW.beds_max, NEW.baths_min, NEW.baths_max, 
  NEW.rent_min, NEW.rent_max, NEW.area_min, NEW.area_max
WHERE coalesce(json_array_length(NEW.units), 0) = 0;
END IF;
RETURN NULL;
END $$;

CREATE TRIGGER listing_units_new AFTER INSERT OR DELETE ON listings
FOR EACH ROW EXECUTE FUNCTION listing_units_follow();

CREATE TRIGGER listing_units_changed
AFTER UPDATE OF units, beds_min, beds_max, baths_min, baths_max, rent_min, rent_max, area_min, area_max ON listings
FOR EACH ROW WHEN (
  NEW.units::text IS DISTINCT FROM OLD.units::text
  OR NEW.beds_min IS DISTINCT FROM OLD.beds_min
  OR NEW.beds_max IS DISTINCT FROM OLD.beds_max
  OR NEW.baths_min IS DISTINCT FROM OLD.baths_min
  OR NEW.baths_max IS DISTINCT FROM OLD.baths_max
  OR NEW.rent_min IS DISTINCT FROM OLD.rent_min
  OR NEW.rent_max IS DISTINCT FROM OLD.rent_max
  OR NEW.area_min IS DISTINCT FROM OLD.area_min
  OR NEW.area_max IS DISTINCT FROM OLD.area_max
) EXECUTE FUNCTION listing_units_follow();
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
