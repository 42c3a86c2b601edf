-- The seed's tables (PR-4, PR-11, PR-13, PR-17), in its columns and words. Money is decimal.

-- One row per URL: what is known of the page, and how its newest task stands. A URL that was never crawled has its task
-- alone, and the negative number of that task as its id; a page whose task was pruned has the page alone. A page that
-- waits, for its first crawl or the next one, is pending, as for the seed's scheduler.
CREATE VIEW crawl_tasks AS
SELECT
  coalesce(p.id, -t.id) AS id,
  d.id AS domain_id,
  coalesce(p.url, convert_from(t.body, 'UTF8')::json ->> 'url') AS url,
  coalesce(p.url_hash, t.key) AS url_hash,
  CASE
    WHEN parse.state = 3 THEN 'parsing'
    WHEN parse.state IN (0, 1, 2, 8) THEN 'downloaded'
    WHEN parse.state = 5 AND p.outcome = 'unparsed' THEN 'failed'
    WHEN t.state = 3 THEN 'crawling'
    WHEN t.state IN (5, 7) THEN 'failed'
    WHEN t.state = 8 OR t.state = 1 AND t.offered THEN 'queued'
    WHEN t.state IN (0, 1, 2) OR p.next_crawl_at IS NOT NULL THEN 'pending'
    WHEN t.state = 6 AND p.id IS NULL THEN 'failed'
    ELSE 'completed'
  END AS status,
  coalesce(p.priority, CAST(convert_from(t.body, 'UTF8')::json ->> 'priority' AS bigint), 5) AS priority,
  to_timestamp(coalesce(t.due, p.next_crawl_at, p.first_seen_at, j.created_at) / 1000.0) AS scheduled_at,
  to_timestamp(t.claimed_at / 1000.0) AS started_at,
  to_timestamp(coalesce(t.ended_at, p.crawled_at) / 1000.0) AS completed_at,
  greatest(coalesce(t.attempt, 0) - 1, 0) AS retry_count,
  coalesce(p.max_retries, CAST(convert_from(t.body, 'UTF8')::json ->> 'max_retries' AS bigint), 3) AS max_retries,
  CASE WHEN t.state = 7 THEN 'cancelled' ELSE coalesce(t.error, t.reason, parse.error) END AS error_message,
  make_interval(secs => coalesce(
    p.frequency, CAST(convert_from(t.body, 'UTF8')::json ->> 'frequency' AS bigint),
    p.usual_frequency, CAST(convert_from(t.body, 'UTF8')::json ->> 'usual_frequency' AS bigint),
    d.crawl_frequency, 86400
  )) AS crawl_frequency,
  to_timestamp(p.next_crawl_at / 1000.0) AS next_crawl_at,
  p.html AS html_path,
  to_timestamp(coalesce(p.first_seen_at, j.created_at) / 1000.0) AS created_at,
  to_timestamp(coalesce(t.ended_at, p.crawled_at, j.created_at) / 1000.0) AS updated_at
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
LEFT JOIN tasks_now parse ON parse.job_id = t.job_id AND parse.kind = 'products.parse' AND parse.key = k.key;

CREATE VIEW products AS
SELECT
  i.id,
  d.id AS domain_id,
  p.id AS crawl_task_id,
  i.url,
  i.url_hash,
  i.product_name,
  i.description,
  CAST(i.price / 10000.0 AS numeric(10, 2)) AS price,
  CASE
    WHEN i.price IS NOT NULL AND (i.currency IS NULL OR i.evidence -> 'currency' ->> 'source' = 'sign')
    THEN coalesce(d.currency, i.currency)
    ELSE i.currency
  END AS currency,
  i.availability,
  CAST(i.rating / 10000.0 AS numeric(3, 2)) AS rating,
  i.review_count,
  i.brand,
  i.category,
  i.sku,
  i.gtin,
  i.content_hash,
  i.metadata,
  to_timestamp(i.first_seen_at / 1000.0) AS created_at,
  to_timestamp(i.changed_at / 1000.0) AS updated_at,
  to_timestamp(i.gone_at / 1000.0) AS gone_at
FROM items i
LEFT JOIN domains d ON d.domain_name = i.domain
LEFT JOIN pages p ON p.url_hash = i.page_hash;

-- Pictures that were downloaded and are still in their product's list.
CREATE VIEW images AS
SELECT
  f.id,
  i.id AS product_id,
  f.image_url,
  f.image_path,
  f.alt_text,
  f.image_type,
  f.position,
  f.width,
  f.height,
  f.file_size,
  to_timestamp(f.first_seen_at / 1000.0) AS created_at
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
  to_timestamp((a.started_at + a.duration_ms) / 1000.0) AS occurred_at
FROM attempts a
JOIN tasks t ON t.id = a.task_id
LEFT JOIN pages p ON p.url_hash = t.key
LEFT JOIN open_keys k ON k.kind = 'products.crawl' AND k.key = t.key
WHERE t.kind IN ('products.crawl', 'products.parse') AND a.status IN ('failed', 'lost');
