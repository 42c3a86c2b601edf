"""The sites pipeline with its edges, each named and imported only when it is needed."""

from forager.sdk.feature import DashboardPage, Feature, Ref, Shortcut

feature = Feature(
    name="sites",
    summary="Any site: its addresses, and its pages as Markdown, text or fields.",
    build=Ref("forager.pipelines.sites.wiring:build"),
    complete=Ref("forager.pipelines.sites.wiring:with_id"),
    estimate=Ref("forager.pipelines.sites.reports:plan_crawl"),
    app_steps=Ref("forager.pipelines.sites.wiring:app_steps"),
    routes=Ref("forager.pipelines.sites.api:routes"),
    shortcuts=(Shortcut("site", "Map, crawl and export any site.", Ref("forager.pipelines.sites.cli:commands")),),
    words=Ref("forager.pipelines.sites.cli_words:words"),
    page=DashboardPage("Sites", "forager.pipelines.sites.page"),
    loop=Ref("forager.pipelines.sites.wiring:upkeep"),
    at_rest=Ref("forager.pipelines.sites.reports:count_links"),
)
