"""Every way in which a URL gets into Forager is known here, with the test that shows the guard at it.

A new route or setting that takes a URL fails this until its own test is named.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from forager.app.config import declared_settings
from tests.support.api import Front

TESTS = Path(__file__).parents[2]
NAMES_A_URL = re.compile(r"(?:^|_)(?:ur[il]s?|endpoints?|address|proxy_file|sitemap)$")

COVERED = {
    "POST /api/v1/admin/crawl-jobs urls": "test_products_egress.py",
    "POST /api/v1/admin/crawl-jobs url": "test_products_egress.py",
    "POST /api/v1/admin/crawl-jobs sitemap": "test_products_egress.py",
    "POST /api/v1/admin/crawl-jobs/in-parts urls": "test_products_egress.py",
    "POST /api/v1/admin/crawl-jobs/{job_id}/urls urls": "test_products_egress.py",
    "POST /api/v1/admin/urls/recrawl urls": "test_products_egress.py",
    "POST /api/v1/proxies address": "test_api_proxies.py",
    "POST /api/v1/scrape target_url": "test_egress_ssrf.py",
    "POST /api/v1/scrape callback_url": "test_webhook_delivery.py",
    "POST /api/v1/scrape/sync target_url": "test_egress_ssrf.py",
    "POST /api/v1/scrape/sync callback_url": "test_webhook_delivery.py",
    "POST /api/v1/scrape/batch target_url": "test_egress_ssrf.py",
    "POST /api/v1/scrape/batch callback_url": "test_webhook_delivery.py",
    "POST /api/v1/scrape/jobs callback_url": "test_scrape_parts.py",
    "POST /api/v1/sites/crawls url": "test_sites_api.py",
    "POST /api/v1/sites/plan url": "test_sites_api.py",
    "POST /api/v1/watches url": "test_watch_to_alert.py",
    "POST /api/v1/channels url": "test_watch_to_alert.py",
    "proxy_endpoints": "test_fetch_proxies.py",
    "proxy_file": "test_fetch_proxies.py",
    "proxy_check_url": "test_fetch_proxies.py",
    "default_webhook_url": "test_webhook_delivery.py",
    "serper_base_url": "test_egress_ssrf.py",
    "llm_url": "test_described_fields.py",
    "apify_base_url": "test_listings_egress.py",
    "backend_api_url": "test_credential_client.py",
    "google_accounts_url": "test_reviews_egress.py",
    "google_locations_url": "test_reviews_egress.py",
    "google_reviews_url": "test_reviews_egress.py",
    "google_oauth_url": "test_reviews_logins.py",
}
NOT_OURS_TO_GUARD = {
    "PUT /api/v1/review-logins/{name} redirect_uri": "repeated to Google's token endpoint; never requested",
    "google_consent_url": "a page that the user's own browser opens",
    "otel_endpoint": "the operator's own collector, reached by OpenTelemetry's exporter",
    "GET /api/v1/sites/page url": "a filter over stored pages of a site: it is looked up, never requested",
    "POST /api/v1/schemas/learn url": "names the page that an example was taken from; never requested",
    "POST /api/v1/sites/crawls sitemap": "a switch, not an address",
    "POST /api/v1/sites/plan sitemap": "a switch, not an address",
    "clickhouse_url": "the operator's own ClickHouse; it is no address that a page or a caller can set",
    "postgres_sink_url": "the operator's own database, reached by its driver",
    "GET /api/v1/pages url": "a filter over stored pages: it is looked up, never requested",
    "POST /api/v1/products/reparse url": "names a product's page whose stored copy is read again; never requested",
    "GET /api/v1/products url": "a filter: it is looked up, never requested",
    "POST /api/v1/admin/crawl-jobs product_url": "names the product that a stored page showed; never requested",
    "bigquery_url": "the operator's own BigQuery or emulator, reached by Google's client",
    "broker_url": "the operator's own message broker, reached by its driver",
    "database_url": "the operator's own database, reached by its driver",
    "database_direct_url": "the same database, without the pooler in front of it",
    "elasticsearch_url": "the operator's own search cluster; it is no address that a page or a caller can set",
    "api_url": "the operator's own Forager, called by the command line",
    "via_url": "the operator's own unblocking service; what it is sent for is checked before (test_via.py)",
    "s3_endpoint": "the operator's own object store, reached by its driver",
    "prefect_api_url": "read without effect so far",
}


def names(schema: Any, document: dict[str, Any], seen: frozenset[str] = frozenset()) -> Iterator[str]:
    """Every property of a body, however deep."""
    if isinstance(schema, list):
        for each in schema:
            yield from names(each, document, seen)
    elif isinstance(schema, dict):
        ref = schema.get("$ref")
        if isinstance(ref, str) and ref not in seen:
            target: Any = document
            for part in ref.removeprefix("#/").split("/"):
                target = target[part]
            yield from names(target, document, seen | {ref})
        yield from schema.get("properties", {})
        for each in schema.values():
            yield from names(each, document, seen)


async def test_every_route_and_setting_that_takes_a_url_is_shown_to_be_guarded__S2(simple: Front) -> None:
    document = (await simple.client.get("/openapi.json")).json()
    routes = {
        f"{method.upper()} {path} {name}"
        for path, methods in document["paths"].items()
        for method, about in methods.items()
        for name in {
            *names(about.get("requestBody", {}).get("content", {}), document),
            *(each["name"] for each in about.get("parameters", [])),
        }
        if NAMES_A_URL.search(name)
    }
    settings = {each.name.field for each in declared_settings() if NAMES_A_URL.search(each.name.field)}
    assert routes | settings == set(COVERED) | set(NOT_OURS_TO_GUARD)


def test_the_named_tests_exist_and_try_forbidden_urls__S2() -> None:
    for file in set(COVERED.values()):
        (found,) = TESTS.rglob(file)
        assert re.search(r"forbidden_urls|Refused|127\.0\.0\.1|169\.254", found.read_text("utf-8")), file
