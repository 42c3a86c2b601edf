"""The scrape pipeline with its edges, each named and imported only when it is needed."""

from forager.kit.feature import Feature, Ref

feature = Feature(
    name="scrape",
    summary="Pages on demand: a URL and what kind of page it is, and its fields come back.",
    build=Ref("forager.pipelines.scrape.wiring:build"),
    settings=Ref("forager.pipelines.scrape.settings:ScrapeSettings"),
    results=Ref("forager.pipelines.scrape.webhook_results:results"),
    log=Ref("forager.pipelines.scrape.log:page_line"),
    logs_every_task=True,
    stored=Ref("forager.pipelines.scrape.reports:stored_files"),
    routes=Ref("forager.pipelines.scrape.api:routes"),
    commands=Ref("forager.pipelines.scrape.cli:commands"),
    words=Ref("forager.pipelines.scrape.cli_words:words"),
    demo=Ref("forager.cli.demos.scrape:demo"),
)
