"""The listings pipeline with its edges, each named and imported only when it is needed."""

from forager.kit.feature import Feature, Ref, Shortcut

feature = Feature(
    name="listings",
    summary="Apartment listings that stay fresh, market by market.",
    build=Ref("forager.pipelines.listings.wiring:build"),
    settings=Ref("forager.pipelines.listings.settings:ListingsSettings"),
    secrets=Ref("forager.pipelines.listings.wiring:secrets"),
    duties=Ref("forager.pipelines.listings.duties:duties"),
    prepare=Ref("forager.pipelines.listings.prepare:prepare"),
    charge=Ref("forager.pipelines.listings.scraping:charge"),
    notices=Ref("forager.pipelines.listings.scraping:notices"),
    routes=Ref("forager.pipelines.listings.api:routes"),
    commands=Ref("forager.pipelines.listings.cli:commands"),
    shortcuts=(
        Shortcut(
            "markets",
            "The cities whose listings are scraped.",
            Ref("forager.pipelines.listings.cli_markets:commands"),
        ),
    ),
    words=Ref("forager.pipelines.listings.cli_words:words"),
    checks=Ref("forager.pipelines.listings.checks:checks"),
    figures=Ref("forager.pipelines.listings.reports_markets:figures"),
    demo=Ref("forager.cli.demos.listings:demo"),
)
