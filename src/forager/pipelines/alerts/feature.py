"""Alerts have two parts. The sink `notify`, one for each channel, matches changes with rules; the pipeline sends the
messages."""

from forager.sdk.feature import Feature, Ref, Shortcut, SinkFeature

feature = Feature(
    name="alerts",
    summary="Rules over changes, and channels for their alerts.",
    build=Ref("forager.pipelines.alerts.wiring:build"),
    internal=True,
    app_steps=Ref("forager.pipelines.alerts.app_steps:app_steps"),
    routes=Ref("forager.pipelines.alerts.api:routes"),
    shortcuts=(
        Shortcut(
            "channels",
            "Channels that receive alerts: Slack, e-mail, ntfy …",
            Ref("forager.pipelines.alerts.cli:channels"),
        ),
        Shortcut("rules", "Rules that turn changes into alerts.", Ref("forager.pipelines.alerts.cli:rules")),
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
