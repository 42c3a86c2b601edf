"""The products pipeline with its edges, each named and imported only when it is needed."""

from forager.kit.feature import Feature, Ref, Shortcut

feature = Feature(
    name="products",
    summary="Shops, crawled and kept current: products, prices, stock.",
    build=Ref("forager.pipelines.products.wiring:build"),
    settings=Ref("forager.pipelines.products.settings:ProductsSettings"),
    estimate=Ref("forager.pipelines.products.price:price"),
    routes=Ref("forager.pipelines.products.api:routes"),
    commands=Ref("forager.pipelines.products.cli:commands"),
    shortcuts=(
        Shortcut(
            "crawl",
            "Crawl a shop's pages; the same command tomorrow crawls again.",
            Ref("forager.pipelines.products.cli_crawl:command"),
        ),
        Shortcut(
            "reparse",
            "Parse stored pages again, without fetching them.",
            Ref("forager.pipelines.products.cli_health:reparse_command"),
        ),
        Shortcut("search", "Search the products.", Ref("forager.pipelines.products.cli_search:command")),
    ),
    indexed=Ref("forager.pipelines.products.indexed:indexed"),
    words=Ref("forager.pipelines.products.cli_words:words"),
    loop=Ref("forager.pipelines.products.loop:upkeep"),
    at_rest=Ref("forager.pipelines.products.reports_health:check_at_rest"),
    figures=Ref("forager.pipelines.products.reports_health:figures"),
    demo=Ref("forager.cli.demos.products:demo"),
)
