"""What comes with the install: 19 markets, the data source, and the three schedules.

Markets and schedules are created once. One that an operator removes stays removed. The schedules come with the first
start that has a token of Apify: before that there is nothing for them to do.
"""

from forager.core.schedules import Schedule
from forager.core.table import Effect
from forager.kit.queries import change_row, insert_row, one_row
from forager.kit.service import Service
from forager.pipelines.listings.markets import INITIAL_MARKETS, TIERS
from forager.pipelines.listings.pipeline import NAME
from forager.pipelines.listings.settings import ListingsSettings
from forager.pipelines.listings.tables import SOURCE, DataSource, MarketConfig


async def prepare(service: Service) -> None:
    """Create what is missing of a new store. The row of the data source is the mark that it is not new any more."""
    source = await one_row(service.database, DataSource, id=SOURCE)
    if source is None:
        for each in INITIAL_MARKETS:
            row = MarketConfig(
                id=each.id,
                display_name=each.display_name,
                city=each.city,
                state=each.state,
                tier=each.tier,
                listings_rate=TIERS[each.tier].decay_rate,
            )
            await insert_row(service.database, row)
        source = DataSource(id=SOURCE, name="Apify: apartments.com")
        await insert_row(service.database, source)
    own = service.settings.of(ListingsSettings)
    if own.apify_token is not None and not source.scheduled:
        for schedule in schedules(own.listings_maintenance_hour):
            await service.put_schedule(schedule)
        await change_row(service.database, Effect(DataSource, {"id": SOURCE}, set={"scheduled": True}))


def schedules(maintenance_hour: int) -> tuple[Schedule, ...]:
    """The three schedules of LI-4. None names a city."""
    return (
        _schedule("dispatch_scrapes", cron="0 * * * *"),
        _schedule("decay_and_verify", cron="0 * * * *"),
        _schedule("cleanup_maintenance", cron=f"0 {maintenance_hour} * * *"),
    )


def _schedule(action: str, *, cron: str) -> Schedule:
    return Schedule(name=action, pipeline=NAME, params={"action": action}, cron=cron)
