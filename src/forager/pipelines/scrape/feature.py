"""The scrape pipeline with its edges, each named and imported only when it is needed."""

from forager.sdk.feature import DashboardPage, Feature, Ref, Shortcut

feature = Feature(
    name="scrape",
    summary="Pages on demand: a URL and what kind of page it is, and its fields come back.",
    build=Ref("forager.pipelines.scrape.wiring:build"),
    settings=Ref("forager.pipelines.scrape.settings:ScrapeSettings"),
    secrets=Ref("forager.pipelines.scrape.wiring:secrets"),
    estimate=Ref("forager.pipelines.scrape.wiring:price"),
    charge=Ref("forager.pipelines.scrape.wiring:charge"),
    expenses=Ref("forager.pipelines.scrape.wiring:expenses"),
    app_steps=Ref("forager.pipelines.scrape.wiring:app_steps"),
    checks=Ref("forager.pipelines.scrape.wiring:checks"),
    loop=Ref("forager.pipelines.scrape.wiring:upkeep"),
    results=Ref("forager.pipelines.scrape.reports:webhook_entries"),
    log=Ref("forager.pipelines.scrape.reports:page_line"),
    logs_every_task=True,
    stored=Ref("forager.pipelines.scrape.reports:stored_files"),
    complete=Ref("forager.pipelines.scrape.wiring:complete"),
    routes=Ref("forager.pipelines.scrape.api:routes"),
    commands=Ref("forager.pipelines.scrape.cli.pages:commands"),
    kind="scrape_result",
    shortcuts=(
        Shortcut(
            "schemas",
            "Fields of your own: add, test and learn them.",
            Ref("forager.pipelines.scrape.cli.schemas:commands"),
        ),
    ),
    words=Ref("forager.pipelines.scrape.cli.job_words:words"),
    page=DashboardPage("Scrape", "forager.pipelines.scrape.page"),
    demo=Ref("forager.pipelines.scrape.demo:demo"),
    showcase=Ref("forager.pipelines.scrape.showcase:showcase"),
)
