"""The places pipeline with its edges, each named and imported only when it is needed."""

from forager.kit.feature import Feature, Ref

feature = Feature(
    name="places",
    summary="Business listings by keyword and ZIP code.",
    build=Ref("forager.pipelines.places.wiring:build"),
    commands=Ref("forager.pipelines.places.cli:commands"),
    words=Ref("forager.pipelines.places.cli_words:words"),
    demo=Ref("forager.cli.demos.places:demo"),
)
