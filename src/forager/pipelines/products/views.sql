-- The seed's tables (PR-4, PR-7, PR-9, PR-11, PR-13, PR-17), in its columns and words. SQLite shows times as ISO 8601
-- in UTC. Money is decimal.
-- @postgresql

-- INSERT INTO crawl_tasks. The URL cannot be normalised and hashed here as the crawler does it, so the request waits in
-- `sql_inbox`, in the caller's transaction; the service submits it within a second of the commit. Its number comes from
-- the tasks' sequence, so that -id is unique in the view.
CREATE FUNCTION crawl_tasks_insert() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = {schema}, pg_temp AS $$
DECLARE
  domain text;
  host text;
  wrong text;
BEGIN
  wrong := CASE
    WHEN NEW.url IS NULL OR NEW.url !~* '^https?://[^/?#[:space:]]+' OR length(NEW.url) > 2048
      THEN 'url: it should be an http or https URL of at most 2,048 characters'
    WHEN coalesce(NEW.status, 'pending') <> 'pending' THEN 'status: a new crawl task is pending'
    WHEN NEW.priority NOT BETWEEN 1 AND 10 THEN 'priority: it should be 1 (highest) to 10'
    WHEN NEW.max_retries NOT BETWEEN 0 AND 10 THEN 'max_retries: it should be 0 to 10'
    WHEN NEW.crawl_frequency NOT BETWEEN interval '1 minute' AND interval '366 days'
      THEN 'crawl_frequency: it should be at least 1 minute and at most 366 days'
    WHEN coalesce(NEW.retry_count, 0) <> 0 OR num_nonnulls(NEW.id, NEW.started_at, NEW.completed_at, NEW.error_message,
      NEW.next_crawl_at, NEW.html_path) > 0
      THEN 'id, started_at, completed_at, retry_count, error_message, next_crawl_at and html_path are set by the crawler: leave them out'
  END;
  IF wrong IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'crawl_tasks.' || wrong || '.';
  END IF;
  host := regexp_replace(substring(lower(NEW.url) FROM '^https?://(?:[^/?#@]*@)?([^/?#]+)'), ':(80|443)$', '');
  IF NEW.domain_id IS NULL THEN
    SELECT d.id INTO NEW.domain_id FROM domains d WHERE d.domain_name = host;
  ELSE
    SELECT d.domain_name INTO domain FROM domains d WHERE d.id = NEW.domain_id;
    IF NOT FOUND THEN
      RAISE EXCEPTION USING ERRCODE = 'foreign_key_violation',
        MESSAGE = 'crawl_tasks.domain_id: there is no domain ' || NEW.domain_id || '.',
        HINT = 'Leave domain_id out: the host of the URL decides. Or insert the domain into domains first.';
    ELSIF host <> domain AND right(host, length(domain) + 1) <> '.' || domain THEN
      RAISE WARNING USING MESSAGE = 'crawl_tasks.domain_id: domain ' || NEW.domain_id || ' is ' || domain
        || ', but the host of the URL is ' || host || '. The host decides.';
    END IF;
  END IF;
  NEW.id := nextval('tasks_id_seq');
  NEW.url_hash := encode(sha256(convert_to(NEW.url, 'UTF8')), 'hex');
  NEW.status := 'pending';
  NEW.retry_count := 0;
  NEW.scheduled_at := coalesce(NEW.scheduled_at, now());
  NEW.created_at := now();
  NEW.updated_at := now();
  INSERT INTO sql_inbox (id, kind, body) VALUES (NEW.id, 'crawl', json_build_object(
    'url', NEW.url, 'domain_id', NEW.domain_id, 'priority', NEW.priority, 'max_retries', NEW.max_retries,
    'scheduled_at', NEW.scheduled_at, 'frequency', CAST(extract(epoch FROM NEW.crawl_frequency) AS bigint)
  ));
  NEW.id := -NEW.id;
  NEW.priority := coalesce(NEW.priority, 5);
  NEW.max_retries := coalesce(NEW.max_retries, 3);
  NEW.crawl_frequency := coalesce(NEW.crawl_frequency, interval '1 day');
  RETURN NEW;
END
$$;

CREATE FUNCTION crawl_tasks_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
    MESSAGE = 'A row of crawl_tasks is not changed or deleted by SQL: a worker may hold its task.',
    HINT = 'INSERT the URL again to crawl it now. Pause, cancel and prioritise its job: forager jobs --help.';
END
$$;

-- INSERT, UPDATE and DELETE on domains. Rules take effect as those of the admin API do. A switch of is_active is also a
-- request in `sql_inbox`, because the lane is paused by the service: a row of the lanes must not stay locked in a
-- transaction that a person holds open.
CREATE FUNCTION domains_write() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = {schema}, pg_temp AS $$
DECLARE
  name text;
  wrong text;
  moment bigint := extract(epoch FROM clock_timestamp()) * 1000;
BEGIN
  IF TG_OP = 'DELETE' THEN
    RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
      MESSAGE = 'domains: pages and products refer to ' || OLD.domain_name || '; it cannot be deleted.',
      HINT = 'UPDATE domains SET is_active = false stops its crawls.';
  END IF;
  name := regexp_replace(lower(btrim(NEW.domain_name)), '(\.|:80|:443)$', '');
  wrong := CASE
    WHEN name IS NULL OR name !~ '^[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?(:[0-9]{1,5})?$' OR length(name) > 253
      THEN 'domain_name: it should be a host name alone, such as amazon.com'
    WHEN NEW.base_url !~* '^https?://[^/?#[:space:]]+' OR length(NEW.base_url) > 512
      THEN 'base_url: it should be an http or https URL of at most 512 characters'
    WHEN NEW.crawl_delay_seconds NOT BETWEEN 0 AND 86400 THEN 'crawl_delay_seconds: it should be 0 to 86400'
    WHEN NEW.max_concurrent_requests NOT BETWEEN 1 AND 100000
      THEN 'max_concurrent_requests: it should be 1 to 100000'
    WHEN TG_OP = 'UPDATE' AND (name <> OLD.domain_name OR NEW.id <> OLD.id)
      THEN 'id and domain_name cannot be changed: insert another domain'
    WHEN TG_OP = 'INSERT' AND NEW.id IS NOT NULL THEN 'id is given by the store: leave it out'
  END;
  IF wrong IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = 'domains.' || wrong || '.';
  END IF;
  NEW.domain_name := name;
  NEW.base_url := coalesce(NEW.base_url, 'https://' || name);
  IF TG_OP = 'INSERT' THEN
    NEW.is_active := coalesce(NEW.is_active, true);
    INSERT INTO domains (domain_name, base_url, crawl_delay_seconds, max_concurrent_requests, is_active, created_at, updated_at)
    VALUES (name, NEW.base_url, NEW.crawl_delay_seconds, NEW.max_concurrent_requests, NEW.is_active, moment, moment)
    RETURNING id INTO NEW.id;
    NEW.created_at := to_timestamp(moment / 1000.0);
  ELSE
    UPDATE domains d SET
      base_url = NEW.base_url,
      crawl_delay_seconds = CASE WHEN NEW.crawl_delay_seconds IS DISTINCT FROM OLD.crawl_delay_seconds
        THEN NEW.crawl_delay_seconds ELSE d.crawl_delay_seconds END,
      max_concurrent_requests = CASE WHEN NEW.max_concurrent_requests IS DISTINCT FROM OLD.max_concurrent_requests
        THEN NEW.max_concurrent_requests ELSE d.max_concurrent_requests END,
      is_active = coalesce(NEW.is_active, d.is_active),
      updated_at = greatest(moment, d.updated_at + 1)
    WHERE d.id = OLD.id;
  END IF;
  IF TG_OP = 'INSERT' AND NOT NEW.is_active OR TG_OP = 'UPDATE' AND NEW.is_active <> OLD.is_active THEN
    INSERT INTO sql_inbox (id, kind, body)
    VALUES (nextval('tasks_id_seq'), 'switch', json_build_object('domain', name, 'active', NEW.is_active));
  END IF;
  NEW.crawl_delay_seconds := coalesce(NEW.crawl_delay_seconds, 1);
  NEW.max_concurrent_requests := coalesce(NEW.max_concurrent_requests, 5);
  NEW.updated_at := to_timestamp(moment / 1000.0);
  RETURN NEW;
END
$$;

-- UPDATE proxies SET is_active. The other columns are the proxy's address, which is encrypted, and its counters.
CREATE FUNCTION proxies_write() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = {schema}, pg_temp AS $$
BEGIN
  IF TG_OP <> 'UPDATE' THEN
    RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
      MESSAGE = 'proxies: a proxy is not inserted or deleted by SQL, because its address and password are stored encrypted.',
      HINT = 'Use forager proxies add and forager proxies remove.';
  END IF;
  IF to_jsonb(NEW) - 'is_active' - 'updated_at' <> to_jsonb(OLD) - 'is_active' - 'updated_at' OR NEW.is_active IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = 'proxies: only is_active can be changed.',
      HINT = 'Use forager proxies for everything else.';
  END IF;
  IF NEW.is_active <> OLD.is_active THEN
    UPDATE proxies p SET is_active = NEW.is_active, disabled = p.disabled AND NOT NEW.is_active,
      failure_count = CASE WHEN NEW.is_active THEN 0 ELSE p.failure_count END,
      updated_at = extract(epoch FROM clock_timestamp()) * 1000
    WHERE p.id = OLD.id;
  END IF;
  RETURN NEW;
END
$$;
-- @both

-- One row per URL: what is known of the page, and how its newest task stands. A URL that was never crawled has its task
-- alone, and the negative number of that task as its id; a page whose task was pruned has the page alone. A page that
-- was crawled is completed until it is due again.
CREATE VIEW crawl_tasks AS
SELECT
  coalesce(p.id, -t.id) AS id,
  d.id AS domain_id,
  coalesce(p.url, $body(t.body) ->> 'url') AS url,
  k.key AS url_hash,
  CASE
    WHEN parse.state = 3 THEN 'parsing'
    WHEN parse.state IN (0, 1, 2, 8) THEN 'downloaded'
    WHEN t.state = 3 THEN 'crawling'
-- @sqlite
    WHEN t.state = 8 OR t.state = 1 AND t.offered = 1 THEN 'queued'
-- @postgresql
    WHEN t.state = 8 OR t.state = 1 AND t.offered THEN 'queued'
-- @both
    WHEN t.state IN (0, 1, 2) OR p.next_crawl_at <= $now THEN 'pending'
    WHEN t.state IN (5, 7) OR parse.state = 5 AND p.outcome = 'unparsed' THEN 'failed'
    WHEN t.state = 6 AND p.id IS NULL THEN 'failed'
    ELSE 'completed'
  END AS status,
  coalesce(p.priority, $int($body(t.body) ->> 'priority'), 5) AS priority,
  $time(coalesce(t.due, p.next_crawl_at, p.first_seen_at, j.created_at)) AS scheduled_at,
  $time(t.claimed_at) AS started_at,
  $time(coalesce(t.ended_at, p.crawled_at)) AS completed_at,
  $greatest(coalesce(t.attempt, 0) - 1, 0) AS retry_count,
  coalesce(p.max_retries, $int($body(t.body) ->> 'max_retries'), 3) AS max_retries,
  CASE WHEN t.state = 7 THEN 'cancelled' ELSE coalesce(t.error, t.reason, parse.error) END AS error_message,
-- @sqlite
  coalesce(
    p.frequency, $body(t.body) ->> 'frequency', p.usual_frequency, $body(t.body) ->> 'usual_frequency',
    d.crawl_frequency, 86400
  ) || ' seconds' AS crawl_frequency,
-- @postgresql
  make_interval(secs => coalesce(
    p.frequency, $int($body(t.body) ->> 'frequency'), p.usual_frequency, $int($body(t.body) ->> 'usual_frequency'),
    d.crawl_frequency, 86400
  )) AS crawl_frequency,
-- @both
  $time(p.next_crawl_at) AS next_crawl_at,
  '/api/v1/pages/' || substr(p.html, 6) AS html_path,
  $time(coalesce(p.first_seen_at, j.created_at)) AS created_at,
  $time(coalesce(t.ended_at, p.crawled_at, j.created_at)) AS updated_at
FROM (
  SELECT o.key, o.task_id FROM open_keys o WHERE o.kind = 'products.crawl'
  UNION ALL
  SELECT q.url_hash, NULL FROM pages q
  WHERE NOT EXISTS (SELECT 1 FROM open_keys o WHERE o.kind = 'products.crawl' AND o.key = q.url_hash)
) k
LEFT JOIN tasks_now t ON t.id = k.task_id
LEFT JOIN jobs j ON j.id = t.job_id
LEFT JOIN lanes l ON l.id = t.lane_id
LEFT JOIN pages p ON p.url_hash = k.key
LEFT JOIN domains d ON d.domain_name = coalesce(p.domain, l.name)
-- @sqlite
LEFT JOIN tasks_now parse ON parse.job_id = t.job_id AND parse.kind = 'products.parse' AND parse.key = k.key;
-- @postgresql
LEFT JOIN tasks_now parse ON parse.job_id = t.job_id AND parse.kind = 'products.parse' AND parse.key = k.key
UNION ALL
SELECT
  -i.id,
  CAST(i.body ->> 'domain_id' AS bigint),
  i.body ->> 'url',
  encode(sha256(convert_to(i.body ->> 'url', 'UTF8')), 'hex'),
  CASE WHEN i.error IS NULL THEN 'pending' ELSE 'failed' END,
  coalesce(CAST(i.body ->> 'priority' AS bigint), 5),
  CAST(i.body ->> 'scheduled_at' AS timestamptz),
  NULL,
  NULL,
  0,
  coalesce(CAST(i.body ->> 'max_retries' AS bigint), 3),
  i.error,
  make_interval(secs => coalesce(CAST(i.body ->> 'frequency' AS bigint), 86400)),
  NULL,
  NULL,
  $time(i.created_at),
  $time(i.created_at)
FROM sql_inbox i
WHERE i.kind = 'crawl' AND NOT EXISTS (
  SELECT 1 FROM open_keys o
  WHERE o.kind = 'products.crawl' AND o.key = encode(sha256(convert_to(i.body ->> 'url', 'UTF8')), 'hex')
) AND NOT EXISTS (
  SELECT 1 FROM pages q WHERE q.url_hash = encode(sha256(convert_to(i.body ->> 'url', 'UTF8')), 'hex')
);

CREATE TRIGGER crawl_tasks_insert INSTEAD OF INSERT ON crawl_tasks
FOR EACH ROW EXECUTE FUNCTION crawl_tasks_insert();

CREATE TRIGGER crawl_tasks_refuse INSTEAD OF UPDATE OR DELETE ON crawl_tasks
FOR EACH ROW EXECUTE FUNCTION crawl_tasks_refuse();

-- The tables `domains` and `proxies` are named as the seed's, but hold more, in milliseconds and encrypted. Where they
-- are in a schema of their own, the seed's tables stand in `public`.
CREATE VIEW public.domains AS
SELECT
  d.id,
  d.domain_name,
  coalesce(d.base_url, 'https://' || d.domain_name) AS base_url,
  coalesce(d.crawl_delay_seconds, 1) AS crawl_delay_seconds,
  coalesce(d.max_concurrent_requests, 5) AS max_concurrent_requests,
  d.is_active,
  $time(d.created_at) AS created_at,
  $time(d.updated_at) AS updated_at
FROM domains d;

CREATE TRIGGER domains_write INSTEAD OF INSERT OR UPDATE OR DELETE ON public.domains
FOR EACH ROW EXECUTE FUNCTION domains_write();

CREATE VIEW public.proxies AS
SELECT
  p.id,
  p.url AS proxy_url,
  p.port AS proxy_port,
  p.protocol AS proxy_protocol,
  CAST(NULL AS text) AS proxy_username,
  CAST(NULL AS text) AS proxy_password,
  p.is_active AND NOT p.disabled AS is_active,
  p.failure_count,
  p.success_count,
  $time(p.last_used_at) AS last_used_at,
  $time(p.last_success_at) AS last_success_at,
  $time(p.last_failure_at) AS last_failure_at,
  CAST(p.avg_response_time_ms AS integer) AS avg_response_time_ms,
  $time(p.created_at) AS created_at,
  $time(p.updated_at) AS updated_at,
  p.region
FROM proxies p;

CREATE TRIGGER proxies_write INSTEAD OF INSERT OR UPDATE OR DELETE ON public.proxies
FOR EACH ROW EXECUTE FUNCTION proxies_write();
-- @both

CREATE VIEW products AS
SELECT
  i.id,
  d.id AS domain_id,
  p.id AS crawl_task_id,
  i.url,
  i.url_hash,
  i.product_name,
  i.description,
-- @sqlite
  round(i.price / 10000.0, 2) AS price,
-- @postgresql
  CAST(i.price / 10000.0 AS numeric(10, 2)) AS price,
-- @both
  CASE
    WHEN i.price IS NOT NULL AND (i.currency IS NULL OR i.evidence -> 'currency' ->> 'source' = 'sign')
    THEN coalesce(d.currency, i.currency)
    ELSE i.currency
  END AS currency,
  i.availability,
-- @sqlite
  round(i.rating / 10000.0, 2) AS rating,
-- @postgresql
  CAST(i.rating / 10000.0 AS numeric(3, 2)) AS rating,
-- @both
  i.review_count,
  i.brand,
  i.category,
  i.sku,
  i.gtin,
  i.content_hash,
  i.metadata,
  $time(i.first_seen_at) AS created_at,
  $time(i.changed_at) AS updated_at,
  $time(i.gone_at) AS gone_at
FROM items i
LEFT JOIN domains d ON d.domain_name = i.domain
LEFT JOIN pages p ON p.url_hash = i.page_hash;

-- Pictures that were downloaded and are still in their product's list.
CREATE VIEW images AS
SELECT
  f.id,
  i.id AS product_id,
  f.image_url,
  '/api/v1/pages/' || substr(f.image_path, 6) AS image_path,
  f.alt_text,
  f.image_type,
  f.position,
  f.width,
  f.height,
  f.file_size,
  $time(f.first_seen_at) AS created_at
FROM pictures f
JOIN items i ON i.url_hash = f.product_hash
WHERE f.gone_at IS NULL;

-- Every attempt that failed. The newest task of a page is its crawl task.
CREATE VIEW error_logs AS
SELECT
  a.id,
  coalesce(p.id, -k.task_id) AS crawl_task_id,
  coalesce(a.error_type, 'internal') AS error_type,
  a.message AS error_message,
  a.traceback AS stack_trace,
  $time((a.started_at + a.duration_ms)) AS occurred_at
FROM attempts a
JOIN tasks t ON t.id = a.task_id
LEFT JOIN pages p ON p.url_hash = t.key
LEFT JOIN open_keys k ON k.kind = 'products.crawl' AND k.key = t.key
WHERE t.kind IN ('products.crawl', 'products.parse') AND a.status IN ('failed', 'lost');
