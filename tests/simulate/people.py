"""Sets up what people add beside jobs: a channel, watches and rules. Each is repeated until it is stored, as a client
does that repeats its request until it has an answer."""

from forager.app.application import App
from forager.core.secret import Secret
from forager.core.sink import SinkRow
from forager.core.table import Effect
from forager.extract.schemas.spec import PageSchema
from forager.pipelines.alerts.app_steps import VAULT, check_hosts, opened
from forager.pipelines.alerts.channels import NotifyChannel
from forager.pipelines.watches.records import PageWatch, WatchedPage
from forager.pipelines.watches.wiring import start_check
from forager.sdk.alert_rules import AlertRule, add_rule, kinds_of
from forager.sdk.queries import change_row, insert_row, last_change, one_row
from tests.simulate.plan import Plan, PlannedRule, PlannedWatch
from tests.simulate.upstreams import Upstreams

CHANNEL = "team"
SCHEMA = PageSchema.model_validate({"fields": {"price": {"type": "number", "css": ".price"}}})


async def add_channel(app: App, plan: Plan, upstreams: Upstreams) -> None:
    """Add the channel, step by step as its route does."""
    address = Secret(upstreams.channel.address)
    await check_hosts(app, opened(address))
    if app.roster.row(CHANNEL) is None:
        await app.add_sink(SinkRow(CHANNEL, "notify"), after=await last_change(app.database))
    await app.vault.put(VAULT, CHANNEL, address)
    await insert_row(app.database, NotifyChannel(name=CHANNEL, service="json", digest_seconds=plan.digest))


async def add_watch(app: App, watch: PlannedWatch, upstreams: Upstreams) -> None:
    """Add a watch with its rule, and check its page at once."""
    url = f"{upstreams.watched.url}/{watch.name}"
    row = PageWatch(
        name=watch.name, url=url, mode="schema", page_schema=SCHEMA.as_json(), every=watch.every, ignored=[]
    )
    rule = AlertRule(
        name=watch.name,
        record_kind=WatchedPage.kind,
        condition=None if watch.below is None else f"price < {watch.below}",
        subject=watch.name,
        fields={"price": "number"},
        channels=[CHANNEL],
    )
    await _add_rule(app, rule)
    await insert_row(app.database, row.model_copy(update={"asked_at": app.clock.now()}))
    await start_check(app, watch.name)


async def check_watch(app: App, watch: PlannedWatch) -> None:
    await start_check(app, watch.name)


async def pause_watch(app: App, watch: PlannedWatch) -> None:
    await change_row(app.database, Effect(PageWatch, {"name": watch.name}, set={"paused": True}))


async def resume_watch(app: App, watch: PlannedWatch) -> None:
    wanted = {"paused": False, "asked_at": app.clock.now(), "job": None}
    await change_row(app.database, Effect(PageWatch, {"name": watch.name}, set=wanted))
    await start_check(app, watch.name)


async def add_rule_about(app: App, rule: PlannedRule) -> None:
    await _add_rule(app, AlertRule(name=rule.name, record_kind=rule.kind, channels=[CHANNEL]))


async def _add_rule(app: App, rule: AlertRule) -> None:
    if await one_row(app.database, AlertRule, name=rule.name) is None:
        await add_rule(app.database, rule, kinds_of(app.pipelines))
