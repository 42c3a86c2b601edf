"""What `forager doctor` reports about the listings pipeline. Changes nothing, and never raises."""

from collections.abc import Iterator

from forager.kit.cli.finding import Finding
from forager.kit.settings import SettingsTree
from forager.pipelines.listings.settings import ListingsSettings


def checks(settings: SettingsTree) -> Iterator[Finding]:
    own = settings.of(ListingsSettings)
    if own.apify_token is None:
        remedy = "Set APIFY_TOKEN to scrape listings; `forager demo listings` needs none."
        yield Finding("apify", "note", "no token is set", remedy)
    else:
        yield Finding("apify", "ok", f"a token is set; {own.apify_actor} at {own.apify_base_url}")
