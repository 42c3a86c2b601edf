"""The places pipeline with its edges, each named and imported only when it is needed."""

from forager.sdk.feature import DashboardPage, Feature, Ref

feature = Feature(
    name="places",
    summary="Business listings by keyword and ZIP code.",
    build=Ref("forager.pipelines.places.wiring:build"),
    settings=Ref("forager.pipelines.places.settings:PlacesSettings"),
    secrets=Ref("forager.pipelines.places.wiring:secrets"),
    references=Ref("forager.pipelines.places.wiring:references"),
    estimate=Ref("forager.pipelines.places.wiring:price"),
    charge=Ref("forager.pipelines.places.wiring:charge"),
    expenses=Ref("forager.pipelines.places.wiring:expenses"),
    mirror=Ref("forager.pipelines.places.mirror:mirror"),
    routes=Ref("forager.pipelines.places.api:routes"),
    checks=Ref("forager.pipelines.places.wiring:checks"),
    commands=Ref("forager.pipelines.places.cli:commands"),
    kind="place",
    rows="/places",
    words=Ref("forager.pipelines.places.cli:words"),
    page=DashboardPage("Places", "forager.pipelines.places.page"),
    demo=Ref("forager.pipelines.places.demo:demo"),
    showcase=Ref("forager.pipelines.places.showcase:showcase"),
)
