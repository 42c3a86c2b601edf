"""Alerts have two parts: the sink `notify`, one for each channel, which finds out which rules a change meets, and the
pipeline, which sends the messages."""

from forager.sdk.feature import Feature, Ref, Shortcut, SinkFeature

feature = Feature(
    name="alerts",
    summary="Rules over changes, and the channels that are told.",
    build=Ref("forager.pipelines.alerts.wiring:build"),
    app_steps=Ref("forager.pipelines.alerts.app_steps:app_steps"),
    routes=Ref("forager.pipelines.alerts.api:routes"),
    shortcuts=(
        Shortcut(
            "channels", "Where alerts are sent: Slack, e-mail, ntfy …", Ref("forager.pipelines.alerts.cli:channels")
        ),
        Shortcut("rules", "Which changes are alerts.", Ref("forager.pipelines.alerts.cli:rules")),
    ),
    commands=Ref("forager.pipelines.alerts.cli:alerts"),
    loop=Ref("forager.pipelines.alerts.wiring:upkeep"),
)
sink = SinkFeature(
    name="notify",
    summary="A channel for alerts: Slack, e-mail, Telegram, ntfy …; see `forager channels`.",
    build=Ref("forager.pipelines.alerts.sink:build"),
    outboxes=Ref("forager.pipelines.alerts.sink:outboxes"),
    addable=False,
)
