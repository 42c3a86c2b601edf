"""The watches of pages with their edges, each named and imported only when it is needed."""

from forager.sdk.feature import Feature, Ref, Shortcut

feature = Feature(
    name="watches",
    summary="Any page, checked again and again: what changed, by word and by field.",
    build=Ref("forager.pipelines.watches.wiring:build"),
    complete=Ref("forager.pipelines.watches.wiring:with_address"),
    app_steps=Ref("forager.pipelines.watches.app_steps:app_steps"),
    routes=Ref("forager.pipelines.watches.api:routes"),
    shortcuts=(Shortcut("watch", "Watch any page for changes.", Ref("forager.pipelines.watches.cli:commands")),),
    loop=Ref("forager.pipelines.watches.wiring:upkeep"),
    words=Ref("forager.pipelines.watches.cli_words:words"),
)
