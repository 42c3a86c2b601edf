"""What comes with the install: 19 markets, the data source, and the three schedules.

Markets and schedules are created once. One that an operator removes stays removed. The schedules come with the first
start that has a token of Apify: before that there is nothing for them to do.
"""

from forager.kit.queries import insert_row, one_row
from forager.kit.service import Service
from forager.pipelines.listings.markets import INITIAL_MARKETS, TIERS
from forager.pipelines.listings.scraping import add_schedules
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
        await insert_row(service.database, DataSource(id=SOURCE, name="Apify: apartments.com"))
    await add_schedules(service)
