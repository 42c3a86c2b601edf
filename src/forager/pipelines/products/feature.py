"""The products pipeline with its edges, each named and imported only when it is needed."""

from forager.sdk.feature import DashboardPage, Feature, Ref, Shortcut

feature = Feature(
    name="products",
    summary="Shops, crawled and kept current: products, prices, stock.",
    build=Ref("forager.pipelines.products.wiring:build"),
    settings=Ref("forager.pipelines.products.settings:ProductsSettings"),
    complete=Ref("forager.pipelines.products.reports.domains:with_frequencies"),
    estimate=Ref("forager.pipelines.products.wiring:price"),
    routes=Ref("forager.pipelines.products.api.catalogue:routes"),
    commands=Ref("forager.pipelines.products.cli.catalogue:commands"),
    app_steps=Ref("forager.pipelines.products.app_steps:app_steps"),
    kind="product",
    shortcuts=(
        Shortcut(
            "crawl",
            "Crawl a shop's pages; the same command tomorrow crawls again.",
            Ref("forager.pipelines.products.cli.crawl:command"),
        ),
        Shortcut(
            "reparse",
            "Parse stored pages again, without fetching them.",
            Ref("forager.pipelines.products.cli.health:reparse_command"),
        ),
        Shortcut("search", "Search the products.", Ref("forager.pipelines.products.cli.catalogue:command")),
    ),
    indexed=Ref("forager.pipelines.products.wiring:indexed"),
    words=Ref("forager.pipelines.products.cli:words"),
    loop=Ref("forager.pipelines.products.wiring:upkeep"),
    at_rest=Ref("forager.pipelines.products.wiring:check_at_rest"),
    figures=Ref("forager.pipelines.products.reports.health:figures"),
    page=DashboardPage("Products", "forager.pipelines.products.page"),
    concerns=Ref("forager.pipelines.products.reports.health:concerns"),
    demo=Ref("forager.pipelines.products.demo:demo"),
    showcase=Ref("forager.pipelines.products.showcase:showcase"),
)
