"""The money that the unblocking service has cost: one row for each month, with its last day.

Every request is one statement that adds its price if both caps leave room for it, so no number of processes spends more
than a cap. Implements `fetch.via.Purse`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from forager.core.database import Database
from forager.core.errors import Capped

MICRO = 1_000_000
NO_CAP = 2**62
_TODAY = "(CASE WHEN via_spending.day = :day THEN via_spending.spent_today ELSE 0 END)"
_TAKE = f"""
INSERT INTO via_spending (month, day, requests, spent, spent_today)
SELECT CAST(:month AS INTEGER), CAST(:day AS INTEGER), 1, CAST(:price AS BIGINT), CAST(:price AS BIGINT)
WHERE CAST(:price AS BIGINT) <= CAST(:cap_day AS BIGINT) AND CAST(:price AS BIGINT) <= CAST(:cap_month AS BIGINT)
ON CONFLICT (month) DO UPDATE SET spent_today = {_TODAY} + :price, spent = via_spending.spent + :price,
  requests = via_spending.requests + 1, day = :day
WHERE via_spending.spent + :price <= :cap_month AND {_TODAY} + :price <= :cap_day
RETURNING spent
"""
_CORRECT = f"""
UPDATE via_spending SET spent = spent + :price, spent_today = {_TODAY.replace("via_spending.", "")}
  + CASE WHEN day = :day THEN CAST(:price AS BIGINT) ELSE 0 END WHERE month = :month
"""


@dataclass(frozen=True, slots=True)
class ViaSpent:
    """The money that was spent, in USD."""

    today: Decimal
    month: Decimal
    requests: int
    """Number of requests in this month."""


class ViaPurse:
    def __init__(
        self,
        database: Database,
        now_ms: Callable[[], Awaitable[int]],
        price: Decimal,
        cap_day: Decimal | None,
        cap_month: Decimal | None,
    ) -> None:
        self._database = database
        self._now_ms = now_ms
        self._price = micro(price)
        self._caps = tuple(NO_CAP if cap is None else micro(cap) for cap in (cap_day, cap_month))

    async def take(self, units: int = 1) -> None:
        """Add the price of a request. Raises `Capped` with the time until a cap leaves room again."""
        now = await self._now()
        values = {**_period(now), "price": units * self._price, "cap_day": self._caps[0], "cap_month": self._caps[1]}
        if not await self._database.write(_TAKE, values):
            spent = await self.spent()
            whole_month = round(spent.month * MICRO) + units * self._price > self._caps[1]
            until = _next_month(now) if whole_month else _next_day(now)
            raise Capped(
                f"The unblocking service has reached its cap of the {'month' if whole_month else 'day'}"
                f" (${spent.month if whole_month else spent.today:.2f} spent). Raise FORAGER_VIA_MAX_USD_"
                f"{'MONTH' if whole_month else 'DAY'}, or wait.",
                wait=(until - now).total_seconds(),
            )

    async def correct(self, units: int) -> None:
        now = await self._now()
        await self._database.write(_CORRECT, {**_period(now), "price": units * self._price})

    async def spent(self) -> ViaSpent:
        now = _period(await self._now())
        rows = await self._database.fetch("SELECT * FROM via_spending WHERE month = :month", {"month": now["month"]})
        if not rows:
            return ViaSpent(Decimal(0), Decimal(0), 0)
        today = rows[0]["spent_today"] if rows[0]["day"] == now["day"] else 0
        return ViaSpent(Decimal(today) / MICRO, Decimal(rows[0]["spent"]) / MICRO, rows[0]["requests"])

    async def _now(self) -> datetime:
        return datetime.fromtimestamp(await self._now_ms() / 1000, UTC)


def micro(amount: Decimal) -> int:
    """Return an amount of USD in millionths, rounded up: a price must not become zero."""
    whole = int(amount * MICRO)
    return whole + (Decimal(whole) < amount * MICRO)


def _period(now: datetime) -> dict[str, int]:
    return {"month": int(f"{now:%Y%m}"), "day": int(f"{now:%Y%m%d}")}


def _next_day(now: datetime) -> datetime:
    return now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)


def _next_month(now: datetime) -> datetime:
    return (now.replace(day=1, hour=0, minute=0, second=0, microsecond=0) + timedelta(days=32)).replace(day=1)
