"""The reviews pipeline with its edges, each named and imported only when it is needed."""

from forager.sdk.feature import DashboardPage, Feature, Ref

feature = Feature(
    name="reviews",
    summary="Google Business Profile reviews: accounts, locations, reviews.",
    build=Ref("forager.pipelines.reviews.wiring:build"),
    settings=Ref("forager.pipelines.reviews.settings:ReviewsSettings"),
    tokens=Ref("forager.pipelines.reviews.access:GoogleLogins"),
    complete=Ref("forager.pipelines.reviews.access:with_known_login"),
    estimate=Ref("forager.pipelines.reviews.reports:plan_reviews"),
    log=Ref("forager.pipelines.reviews.wiring:failure_line"),
    publication=Ref("forager.pipelines.reviews.publication:publication"),
    figures=Ref("forager.pipelines.reviews.reports:figures"),
    routes=Ref("forager.pipelines.reviews.api:routes"),
    commands=Ref("forager.pipelines.reviews.cli:commands"),
    kind="review",
    words=Ref("forager.pipelines.reviews.cli:words"),
    checks=Ref("forager.pipelines.reviews.wiring:checks"),
    page=DashboardPage("Reviews", "forager.pipelines.reviews.page"),
    demo=Ref("forager.pipelines.reviews.demo:demo"),
    showcase=Ref("forager.pipelines.reviews.showcase:showcase"),
)
