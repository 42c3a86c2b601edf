"""The reviews pipeline with its edges, each named and imported only when it is needed."""

from forager.kit.feature import Feature, Ref

feature = Feature(
    name="reviews",
    summary="Google Business Profile reviews: accounts, locations, reviews.",
    build=Ref("forager.pipelines.reviews.wiring:build"),
    settings=Ref("forager.pipelines.reviews.settings:ReviewsSettings"),
    log=Ref("forager.pipelines.reviews.log:failure_line"),
    publication=Ref("forager.pipelines.reviews.publication:publication"),
    figures=Ref("forager.pipelines.reviews.reports:figures"),
    routes=Ref("forager.pipelines.reviews.api:routes"),
    commands=Ref("forager.pipelines.reviews.cli:commands"),
    words=Ref("forager.pipelines.reviews.cli_words:words"),
    checks=Ref("forager.pipelines.reviews.checks:checks"),
    demo=Ref("forager.cli.demos.reviews:demo"),
)
