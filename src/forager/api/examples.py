"""Example bodies for the OpenAPI document. The figures are consistent with one another: they describe one job."""

from typing import Any

from forager.app.application import App
from forager.sdk.http.routes import example_of

JOB = {
    "id": "0f1c9b52-6a7e-4d0e-8e63-0a2f3c5b7d11",
    "pipeline": "places",
    "state": "running",
    "reason": None,
    "params": {"keyword": "bars", "state": "AZ", "pages": 3, "batch_size": 100},
    "estimate": None,
    "schedule": None,
    "created_at": "2026-03-14T12:00:00Z",
    "started_at": "2026-03-14T12:00:00.120Z",
    "finished_at": None,
    "batch_size": 100,
    "concurrency": None,
    "max_cost": 1000,
    "total": 915,
    "queued": 712,
    "running": 162,
    "completed": 41,
    "failed": 0,
    "skipped": 0,
    "cancelled": 0,
    "retries": 0,
    "spent": 41,
    "guessed": 0,
    "reserved": 162,
    "records": 387,
    "discoveries": 350,
    "rejected": 0,
    "waiting": None,
}
JOB_CHANGE = {
    "id": 41,
    "kind": "job",
    "key": "0f1c9b52-6a7e-4d0e-8e63-0a2f3c5b7d11",
    "op": "paused",
    "version": 2,
    "job": "0f1c9b52-6a7e-4d0e-8e63-0a2f3c5b7d11",
    "at": "2026-03-14T12:00:30Z",
    "body": {"state": "paused", "reason": "credits are being topped up"},
}
CHANGE: dict[str, Any] = {
    "id": 977,
    "kind": "place",
    "key": "ChIJN1t",
    "op": "changed",
    "version": 3,
    "scope": "world",
    "job": JOB["id"],
    "pipeline": "places",
    "at": "2026-03-14T12:04:00.120Z",
    "body": {"place_uid": "ChIJN1t", "title": "Still"},
}
REJECTED = {
    "id": 7,
    "task": "00000000-0001-8000-8000-00000000002a",
    "kind": "listing",
    "key": "ap-4711",
    "reason": "rent: must not be negative",
    "payload": {"id": "ap-4711", "rent": -1},
    "at": "2026-03-14T12:00:09Z",
}
TASK = {
    "id": "00000000-0001-8000-8000-00000000002a",
    "job": "0f1c9b52-6a7e-4d0e-8e63-0a2f3c5b7d11",
    "kind": "places.query",
    "key": "85001/1",
    "url": None,
    "lane": "serper",
    "state": "failed",
    "attempts": 1,
    "claim": "claim-1773489600-00000002a",
    "claimed_at": "2026-03-14T12:00:00.120Z",
    "due_at": None,
    "after": None,
    "cost": 0,
    "guessed": 0,
    "error": "Serper answered 400: missing query",
    "reason": "query_refused",
    "error_type": "http",
    "facts": {"api_status": 400, "api_ms": 84},
    "ended_at": "2026-03-14T12:00:00.204Z",
}
ATTEMPT = {
    "attempt": 1,
    "started_at": "2026-03-14T12:00:00.120Z",
    "duration_ms": 84,
    "status": "failed",
    "reason": "query_refused",
    "error_type": "http",
    "message": "Serper answered 400: missing query",
    "traceback": "Permanent: Serper answered 400: missing query",
}
DEAD = {**TASK, "pipeline": "places"}
DEAD_REASON = {
    "pipeline": "places",
    "reason": "timed_out",
    "error_type": "network",
    "letters": 12,
    "last_failed_at": TASK["ended_at"],
}
DEAD_DETAIL = {
    **DEAD,
    "body": {"keyword": "bars", "zip": "85001", "page": 1, "pages": 3},
    "evidence": {
        "has_screenshot": False,
        "content_type": "application/json",
        "size": 27,
        "text": '{"message":"missing query"}',
        "kept_until": "2026-03-21T12:00:00Z",
    },
}
SCHEDULE = {
    "name": "bars-az-weekly",
    "pipeline": "places",
    "params": {"keyword": "bars", "state": "AZ", "max_credits": 1000},
    "cron": "0 6 * * 1",
    "timezone": "America/Phoenix",
    "every": None,
    "paused": False,
    "per_month": {"jobs": 4, "expected_usd": "0.72", "worst_usd": "1.10", "has_budget": True, "warning": None},
    "next_at": "2026-03-16T13:00:00Z",
    "last_at": None,
    "last_job": None,
    "last_error": None,
}
LANE = {
    "name": "serper",
    "owner": "host-1:4711",
    "shared": False,
    "paused": False,
    "wake_at": None,
    "state": {"slow_until": 1773489630000},
    "per_second": 241.0,
    "waiting": {
        "reason": "rate",
        "message": "next request to serper in 8 s",
        "lane": "serper",
        "until": "2026-03-14T12:00:08Z",
    },
}
OVERRIDES = {"tokens_per_interval": 1, "interval_seconds": 30, "allowed_hours": {"start": 22, "end": 6}}
OVERRIDE = {
    "name": "shop.example",
    "rules": OVERRIDES,
    "created_at": "2026-03-14T12:00:00Z",
    "updated_at": "2026-03-14T12:00:00Z",
}
LANE_DETAIL = {
    "name": "shop.example",
    "kind": "site",
    "seen": True,
    "owner": "host-1:4711",
    "shared": False,
    "paused": False,
    "wake_at": None,
    "rules": {
        "tokens_per_interval": {"value": 1, "by": "operator", "where": "shop.example"},
        "interval_seconds": {"value": 30, "by": "operator", "where": "shop.example"},
        "min_delay_ms": {"value": 500, "by": "default", "where": "default"},
        "max_delay_ms": {"value": 2000, "by": "default", "where": "default"},
        "allowed_hours": {"value": {"start": 22, "end": 6}, "by": "operator", "where": "shop.example"},
        "respect_robots_txt": {"value": True, "by": "default", "where": "default"},
        "max_concurrent_requests": {"value": 5, "by": "settings", "where": "settings"},
        "crawl_delay_seconds": {"value": 0, "by": "settings", "where": "settings"},
        "use_proxies": {"value": True, "by": "settings", "where": "settings"},
        "proxy_cooldown_seconds": {"value": 30, "by": "settings", "where": "settings"},
        "block_resources": {"value": [], "by": "settings", "where": "settings"},
        "via": {"value": False, "by": "settings", "where": "settings"},
    },
    "pace": {
        "seconds": 30.0,
        "rules": ["tokens_per_interval", "interval_seconds"],
        "message": "at most 1 in 30 s (operator rule for shop.example)",
    },
    "per_second": 0.033,
    "overrides": OVERRIDES,
    "open_now": True,
    "opens_at": None,
    "breaker": {"state": "closed", "calls": 10, "failures": 1, "probe_at": None},
    "slow_until": None,
    "hold_until": None,
    "next_at": None,
    "waiting": None,
    "crawl_delay_seconds": 10,
    "capped": False,
    "used_by": ["scrape"],
}
PROXY = {
    "id": 7,
    "protocol": "http",
    "url": "proxy.example",
    "port": 8080,
    "username": None,
    "password": None,
    "authenticated": True,
    "region": "US",
    "source": "operator",
    "is_active": True,
    "healthy": True,
    "disabled": False,
    "failure_count": 0,
    "success_count": 1204,
    "failures": 3,
    "bytes": 88310412,
    "avg_response_time_ms": 412.5,
    "last_used_at": "2026-03-14T12:00:00.120Z",
    "last_success_at": "2026-03-14T12:00:00.120Z",
    "last_failure_at": "2026-03-13T08:11:42Z",
    "last_check_at": "2026-03-14T11:59:30Z",
    "created_at": "2026-03-01T09:00:00Z",
    "updated_at": "2026-03-14T12:00:00.120Z",
}
PROXY_CHECK = {"id": 7, "passed": True, "latency_ms": 184, "region": "US", "reason": None}
SINK = {
    "name": "prices",
    "type": "webhook",
    "origin": "row",
    "kinds": ["product"],
    "pipelines": None,
    "where": "old.price > price",
    "options": {"url": "https://receiver.example/prices"},
    "configured": True,
    "problem": None,
    "state": "delivering",
    "cursor": 10482,
    "behind": 12,
    "lag_seconds": 0.4,
    "delivered": 231,
    "waiting": 2,
    "rate": 3.5,
    "owner": "worker-1:4711",
    "failures": 0,
    "error": None,
    "error_at": None,
    "failing_since": None,
    "retry_at": None,
    "moved_at": "2026-03-14T12:05:00Z",
    "set_aside": 0,
    "stalled": False,
}
NEW_SINK: dict[str, Any] = {
    "name": "prices",
    "type": "webhook",
    "kinds": ["product"],
    "where": "old.price > price",
    "options": {"url": "https://receiver.example/prices"},
    "after": "now",
}
SINK_TYPE = {
    "name": "kafka",
    "summary": "Changes in Kafka topics; without a row, what pipelines publish.",
    "addable": True,
    "options": {"type": "object", "properties": {"topic": {"type": "string"}}},
}
RECHECK = {
    "name": "product.next_at",
    "pipeline": "products",
    "record": "product",
    "field": "next_at",
    "state": "active",
    "due": 12,
    "late_seconds": 3.5,
    "oldest_due": "2026-03-14T12:04:56.500000Z",
    "next_due": "2026-03-14T12:10:00Z",
    "dispatched": 48210,
    "last_at": "2026-03-14T12:04:58Z",
    "error": None,
    "error_at": None,
    "job_id": "0f1c9b52-6a7e-4d0e-8e63-0a2f3c5b7d11",
}
REFUSED_CHANGE = {
    "change": 977,
    "kind": "place",
    "key": "ChIJN1t",
    "op": "changed",
    "job": "0f1c9b52-6a7e-4d0e-8e63-0a2f3c5b7d11",
    "tries": 5,
    "error": "The index refuses the field `rating`.",
    "at": "2026-03-14T12:04:00Z",
    "retry": False,
}
HEALTH = {
    "status": "ok",
    "store": "ok",
    "worker": "alive",
    "trouble": None,
    "queue_depth": 712,
    "active": 162,
    "active_workers": 162,
    "avg_duration": 0.412,
    "pool": {"total": 2, "available": 1, "in_use": 1, "pages_processed": 57, "recycled_count": 0},
    "proxies": {"1": {"healthy": True, "success_count": 55, "failure_count": 2}},
    "circuits": {"open": 1, "half_open": 0},
    "circuit_domains": {"example.com": "open"},
    "stalled_sinks": 0,
    "stalled_sink_errors": {},
    "refused_keys": 0,
    "refused_key_errors": {},
    "open_jobs": {"running": 1},
    "dead_letters": 0,
    "version": "0.1.0",
}

BLOBS = {"pages": 51234, "size": 1049234432, "stored": 291845120, "unused": 8421376, "segments": 5}
COLLECTED = {"pages": 1204, "kept": 50030, "freed": 6815744, "segments": 1, "dry_run": False}
STORED_PAGE = {
    "id": "5f0c9d2a7b6e4c1f8a3d0b9e7c5a1f2e4d6b8c0a",
    "kind": "page",
    "key": "5d1c1e0a9ad9a7c1f0f2b7b4b3c9e3a2f3c1d0a4b5e6f708192a3b4c5d6e7f80",
    "url": "https://shop.example/p/oak-table-7",
    "path": "/api/v1/pages/5f0c9d2a7b6e4c1f8a3d0b9e7c5a1f2e4d6b8c0a",
}
STORED_PAGE_DETAIL = {
    "id": STORED_PAGE["id"],
    "url": STORED_PAGE["url"],
    "status": 200,
    "fetched_at": "2026-03-14T12:00:01.120Z",
    "files": [
        {
            "name": "raw",
            "path": f"{STORED_PAGE['path']}/raw",
            "file_name": f"{STORED_PAGE['id']}.html",
            "content_type": "text/html; charset=utf-8",
            "size": 20_480,
        }
    ],
}


# Examples of requests that name a pipeline: one for each pipeline whose job class has an example.


def job_examples(app: App, **more: Any) -> dict[str, Any]:
    """Return OpenAPI examples by pipeline: `{pipeline, params}`, plus whatever else the request needs."""
    jobs = {name: example_of(pipeline.params) for name, pipeline in app.pipelines.items() if not pipeline.internal}
    return {
        name: {"summary": app.features[name].summary, "value": {"pipeline": name, "params": params, **more}}
        for name, params in jobs.items()
        if params
    }
