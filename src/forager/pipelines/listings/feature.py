"""The listings pipeline with its edges, each named and imported only when it is needed."""

from forager.sdk.feature import DashboardPage, Feature, Ref, Shortcut

feature = Feature(
    name="listings",
    summary="Apartment listings that stay fresh, market by market.",
    build=Ref("forager.pipelines.listings.wiring:build"),
    settings=Ref("forager.pipelines.listings.settings:ListingsSettings"),
    secrets=Ref("forager.pipelines.listings.wiring:secrets"),
    app_steps=Ref("forager.pipelines.listings.wiring:app_steps"),
    prepare=Ref("forager.pipelines.listings.wiring:prepare"),
    charge=Ref("forager.pipelines.listings.scrape_schedule:charge"),
    expenses=Ref("forager.pipelines.listings.reports.markets:expenses"),
    notices=Ref("forager.pipelines.listings.scrape_schedule:notices"),
    routes=Ref("forager.pipelines.listings.api.listings:routes"),
    commands=Ref("forager.pipelines.listings.cli.listings:commands"),
    kind="listing",
    shortcuts=(
        Shortcut(
            "markets",
            "The cities whose listings are scraped.",
            Ref("forager.pipelines.listings.cli.markets:commands"),
        ),
    ),
    words=Ref("forager.pipelines.listings.cli.job_words:words"),
    checks=Ref("forager.pipelines.listings.wiring:checks"),
    figures=Ref("forager.pipelines.listings.reports.markets:figures"),
    page=DashboardPage("Listings", "forager.pipelines.listings.page"),
    demo=Ref("forager.pipelines.listings.demo:demo"),
    showcase=Ref("forager.pipelines.listings.showcase:showcase"),
)
