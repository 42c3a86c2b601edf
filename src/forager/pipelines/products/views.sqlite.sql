-- The seed's tables (PR-4, PR-11, PR-13, PR-17), in its columns and words. Times are ISO 8601 in UTC, money is decimal.

-- One row per URL: what is known of the page, and how its newest task stands. A URL that was never crawled has its task
-- alone, and the negative number of that task as its id; a page whose task was pruned has the page alone. A page that
-- was crawled is completed until it is due again.
CREATE VIEW crawl_tasks AS
SELECT
  coalesce(p.id, -t.id) AS id,
  d.id AS domain_id,
  coalesce(p.url, CAST(t.body AS TEXT) ->> 'url') AS url,
  k.key AS url_hash,
  CASE
    WHEN parse.state = 3 THEN 'parsing'
    WHEN parse.state IN (0, 1, 2, 8) THEN 'downloaded'
    WHEN t.state = 3 THEN 'crawling'
    WHEN t.state = 8 OR t.state = 1 AND t.offered = 1 THEN 'queued'
    WHEN t.state IN (0, 1, 2) OR p.next_crawl_at <= (julianday('now') - 2440587.5) * 86400000 THEN 'pending'
    WHEN t.state IN (5, 7) OR parse.state = 5 AND p.outcome = 'unparsed' THEN 'failed'
    WHEN t.state = 6 AND p.id IS NULL THEN 'failed'
    ELSE 'completed'
  END AS status,
  coalesce(p.priority, CAST(t.body AS TEXT) ->> 'priority', 5) AS priority,
  strftime(
    '%Y-%m-%dT%H:%M:%fZ', coalesce(t.due, p.next_crawl_at, p.first_seen_at, j.created_at) / 1000.0, 'unixepoch'
  ) AS scheduled_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', t.claimed_at / 1000.0, 'unixepoch') AS started_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(t.ended_at, p.crawled_at) / 1000.0, 'unixepoch') AS completed_at,
  max(coalesce(t.attempt, 0) - 1, 0) AS retry_count,
  coalesce(p.max_retries, CAST(t.body AS TEXT) ->> 'max_retries', 3) AS max_retries,
  CASE WHEN t.state = 7 THEN 'cancelled' ELSE coalesce(t.error, t.reason, parse.error) END AS error_message,
  coalesce(
    p.frequency, CAST(t.body AS TEXT) ->> 'frequency',
    p.usual_frequency, CAST(t.body AS TEXT) ->> 'usual_frequency', d.crawl_frequency, 86400
  ) || ' seconds' AS crawl_frequency,
  strftime('%Y-%m-%dT%H:%M:%fZ', p.next_crawl_at / 1000.0, 'unixepoch') AS next_crawl_at,
  '/api/v1/pages/' || substr(p.html, 6) AS html_path,
  strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(p.first_seen_at, j.created_at) / 1000.0, 'unixepoch') AS created_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(t.ended_at, p.crawled_at, j.created_at) / 1000.0, 'unixepoch') AS updated_at
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
  round(i.price / 10000.0, 2) AS price,
  CASE
    WHEN i.price IS NOT NULL AND (i.currency IS NULL OR i.evidence -> 'currency' ->> 'source' = 'sign')
    THEN coalesce(d.currency, i.currency)
    ELSE i.currency
  END AS currency,
  i.availability,
  round(i.rating / 10000.0, 2) AS rating,
  i.review_count,
  i.brand,
  i.category,
  i.sku,
  i.gtin,
  i.content_hash,
  i.metadata,
  strftime('%Y-%m-%dT%H:%M:%fZ', i.first_seen_at / 1000.0, 'unixepoch') AS created_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', i.changed_at / 1000.0, 'unixepoch') AS updated_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', i.gone_at / 1000.0, 'unixepoch') AS gone_at
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
  strftime('%Y-%m-%dT%H:%M:%fZ', f.first_seen_at / 1000.0, 'unixepoch') AS created_at
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
  strftime('%Y-%m-%dT%H:%M:%fZ', (a.started_at + a.duration_ms) / 1000.0, 'unixepoch') AS occurred_at
FROM attempts a
JOIN tasks t ON t.id = a.task_id
LEFT JOIN pages p ON p.url_hash = t.key
LEFT JOIN open_keys k ON k.kind = 'products.crawl' AND k.key = t.key
WHERE t.kind IN ('products.crawl', 'products.parse') AND a.status IN ('failed', 'lost');
