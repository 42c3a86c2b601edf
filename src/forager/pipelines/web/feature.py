"""The web pipeline with its edges, each named and imported only when it is needed."""

from forager.sdk.feature import DashboardPage, Feature, Ref, Shortcut

feature = Feature(
    name="web",
    summary="Search the web, and read what was found.",
    build=Ref("forager.pipelines.web.wiring:build"),
    complete=Ref("forager.pipelines.web.wiring:with_id"),
    estimate=Ref("forager.pipelines.web.wiring:price"),
    charge=Ref("forager.pipelines.web.wiring:charge"),
    app_steps=Ref("forager.pipelines.web.app_steps:app_steps"),
    routes=Ref("forager.pipelines.web.api:routes"),
    kind="web_result",
    page=DashboardPage("Web search", "forager.pipelines.web.page"),
    words=Ref("forager.pipelines.web.cli:words"),
    shortcuts=(Shortcut("web", "Search the web, and read what was found.", Ref("forager.pipelines.web.cli:commands")),),
)
