"""The places pipeline with its edges, each named and imported only when it is needed."""

from forager.kit.feature import Feature, Ref

feature = Feature(
    name="places",
    summary="Business listings by keyword and ZIP code.",
    build=Ref("forager.pipelines.places.wiring:build"),
    settings=Ref("forager.pipelines.places.settings:PlacesSettings"),
    secrets=Ref("forager.pipelines.places.wiring:secrets"),
    references=Ref("forager.pipelines.places.wiring:references"),
    estimate=Ref("forager.pipelines.places.price:price"),
    charge=Ref("forager.pipelines.places.price:charge"),
    mirror=Ref("forager.pipelines.places.mirror:mirror"),
    routes=Ref("forager.pipelines.places.api:routes"),
    checks=Ref("forager.pipelines.places.checks:checks"),
    commands=Ref("forager.pipelines.places.cli:commands"),
    words=Ref("forager.pipelines.places.cli_words:words"),
    demo=Ref("forager.cli.demos.places:demo"),
)
