"""The budget of an agent's session: pages, credits, dollars, minutes. Checked before every spend, recorded after it.

The ledger keeps every spend under the session's name, so that a session that continues after a restart continues with
what is left. A job is reserved with its worst case, and settled with what it really cost as soon as it has ended.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from forager.client.connection import part
from forager.client.errors import ApiError
from forager.client.forager import AsyncForager
from forager.client.groups import ENDED


@dataclass(frozen=True, slots=True)
class AgentBudget:
    """The budget of a session. Nothing that costs money is allowed unless an operator sets an amount."""

    pages: int = 100
    credits: int = 0
    usd: Decimal = Decimal(0)
    minutes: float = 60.0

    def amounts(self) -> dict[str, Any]:
        return {"pages": self.pages, "credits": self.credits, "usd": str(self.usd)}


class OverBudget(Exception):
    """The session's budget does not cover a spend."""


@dataclass(slots=True)
class SessionBudget:
    forager: AsyncForager
    name: str
    limit: AgentBudget
    clock: Callable[[], float] = time.monotonic
    started: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.clock()

    async def reserve(self, tool: str, about: str, *, settled: bool = False, **amounts: Any) -> int:
        """Record a spend of `pages`, `credits` and `usd`, and return its number. Raises `OverBudget` if the budget does
        not cover it."""
        self.check_time()
        body = {
            "tool": tool,
            "about": about[:2_000],
            "amounts": amounts,
            "budget": self.limit.amounts(),
            "settled": settled,
        }
        try:
            made = await self.forager.request("POST", f"{self._path}/spends", body=body)
        except ApiError as error:
            if error.status == 409:
                raise OverBudget(error.message) from error
            raise
        return int(made.data["id"])

    async def settle(self, spend: int, *, job: str | None = None, **amounts: Any) -> None:
        """Replace a reserved spend by what was really spent."""
        await self.forager.request(
            "PATCH", f"{self._path}/spends/{spend}", body={"amounts": amounts, **({"job": job} if job else {})}
        )

    async def pays_for(self, spend: int, job: str) -> None:
        """Note the job that a reserved spend has become; it is settled when the job has ended."""
        await self.forager.request("PATCH", f"{self._path}/spends/{spend}", body={"job": job})

    async def left(self) -> dict[str, Any]:
        """Return what is left, after the jobs that have ended are settled."""
        await self._settle_ended()
        spent = (await self.forager.request("GET", self._path)).data
        return {
            "pages": max(0, self.limit.pages - spent["pages"]),
            "credits": max(0, self.limit.credits - spent["credits"]),
            "usd": str(max(Decimal(0), self.limit.usd - Decimal(str(spent["usd"])))),
            "minutes": round(max(0.0, self.limit.minutes - self._minutes()), 1),
        }

    async def spends(self) -> list[Mapping[str, Any]]:
        """Return the session's spends, newest first."""
        return list((await self.forager.request("GET", f"{self._path}/spends")).data)

    def check_time(self) -> None:
        if self._minutes() >= self.limit.minutes:
            raise OverBudget(f"The session has used its {self.limit.minutes:g} minutes. Start a new one.")

    async def _settle_ended(self) -> None:
        open_spends = [each for each in await self.spends() if not each["settled"] and each["job"]]
        await asyncio.gather(*(self._settle_job(each) for each in open_spends))

    async def _settle_job(self, spend: Mapping[str, Any]) -> None:
        job = await self.forager.jobs.get(spend["job"])
        if job["state"] not in ENDED:
            return
        if job["pipeline"] in ("places", "web"):
            price = Decimal(str((job["estimate"] or {}).get("price_per_1000_usd") or 0))
            if not price and spend["credits"]:
                price = Decimal(str(spend["usd"])) * 1000 / spend["credits"]
            usd = (price * job["spent"] / 1000).quantize(Decimal("0.000001"))
            await self.settle(spend["id"], credits=job["spent"], usd=str(usd))
        elif job["pipeline"] == "scrape":
            # A page with described fields has two tasks; the lane of the model counts millionths of a dollar.
            pages = min(spend["pages"], job["completed"] + job["failed"])
            await self.settle(spend["id"], pages=pages, usd=str(Decimal(job["spent"]) / 1_000_000))
        elif job["pipeline"] == "sites":  # its ledger counts pages and sitemaps
            await self.settle(spend["id"], pages=job["spent"])
        else:
            await self.settle(spend["id"], pages=job["completed"] + job["failed"])

    def _minutes(self) -> float:
        return (self.clock() - self.started) / 60

    @property
    def _path(self) -> str:
        return f"/agent-sessions/{part(self.name)}"
