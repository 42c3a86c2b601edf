"""Spending of agents, one row for each spend, by the name of their session. Never on a hot path."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from pydantic import BaseModel, Field

from forager.core.database import Database, Row
from forager.core.errors import Conflict, NotFound
from forager.sdk.queries import at

MICRO = 1_000_000


class AgentAmounts(BaseModel):
    """Amounts of the three things that an agent can spend."""

    pages: int = Field(default=0, ge=0, le=10**12)
    credits: int = Field(default=0, ge=0, le=10**12)
    usd: Decimal = Field(default=Decimal(0), ge=0, le=10**9)


class AgentSpend(BaseModel):
    """One spend of a session. Until it is settled, the amounts are the worst case of a job that runs."""

    id: int
    tool: str
    about: str
    job: str | None
    pages: int
    credits: int
    usd: Decimal
    settled: bool
    at: datetime


class AgentSession(BaseModel):
    """Spending of a session, including reservations for its open jobs."""

    session: str
    spends: int
    pages: int
    credits: int
    usd: Decimal
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True)
class AgentSpends:
    database: Database
    now: Callable[[], Awaitable[datetime]]

    async def add(
        self,
        session: str,
        tool: str,
        about: str,
        amounts: AgentAmounts,
        most: AgentAmounts,
        *,
        job: str | None = None,
        settled: bool = False,
    ) -> AgentSpend:
        """Record a spend if the session's sum stays within `most`, in one statement. Raises `Conflict` otherwise."""
        rows = await self.database.write(
            f"""INSERT INTO agent_spends (session, tool, about, job, pages, credits, micro_usd, settled, at)
            SELECT CAST(:session AS TEXT), CAST(:tool AS TEXT), CAST(:about AS TEXT), CAST(:job AS TEXT),
              CAST(:pages AS BIGINT), CAST(:credits AS BIGINT), CAST(:usd AS BIGINT), CAST(:settled AS BOOLEAN),
              CAST(:at AS BIGINT)
            FROM (SELECT coalesce(sum(pages), 0) AS p, coalesce(sum(credits), 0) AS c, coalesce(sum(micro_usd), 0) AS u
              FROM agent_spends WHERE session = :session) spent
            WHERE spent.p + CAST(:pages AS BIGINT) <= CAST(:most_pages AS BIGINT)
              AND spent.c + CAST(:credits AS BIGINT) <= CAST(:most_credits AS BIGINT)
              AND spent.u + CAST(:usd AS BIGINT) <= CAST(:most_usd AS BIGINT)
            RETURNING {_COLUMNS}""",
            {
                "session": session,
                "tool": tool,
                "about": about,
                "job": job,
                "settled": settled,
                "at": _ms(await self.now()),
                "pages": amounts.pages,
                "credits": amounts.credits,
                "usd": _micro(amounts.usd),
                "most_pages": most.pages,
                "most_credits": most.credits,
                "most_usd": _micro(most.usd),
            },
        )
        if not rows:
            spent = await self.session(session)
            names = (("pages", "pages"), ("credits", "credits"), ("usd", "dollars"))
            short = [
                word for name, word in names if getattr(spent, name) + getattr(amounts, name) > getattr(most, name)
            ]
            raise Conflict(
                f"The budget of session {session!r} does not cover this: {_text(amounts)} more, {_text(spent)} spent"
                f" or reserved, {_text(most)} allowed. It has too few {' and '.join(short) or 'of them left'}: ask an"
                " operator for a larger budget, or do less."
            )
        return _spend(rows[0])

    async def settle(self, session: str, spend: int, amounts: AgentAmounts, *, job: str | None = None) -> AgentSpend:
        """Replace the reserved amounts by what was really spent. Raises `NotFound`."""
        rows = await self.database.write(
            "UPDATE agent_spends SET pages = :pages, credits = :credits, micro_usd = :usd, settled = true,"
            f" job = coalesce(CAST(:job AS TEXT), job) WHERE id = :id AND session = :session RETURNING {_COLUMNS}",
            {
                "id": spend,
                "session": session,
                "job": job,
                "pages": amounts.pages,
                "credits": amounts.credits,
                "usd": _micro(amounts.usd),
            },
        )
        return _spend(_found(rows, spend))

    async def name_job(self, session: str, spend: int, job: str) -> AgentSpend:
        """Note the job that a reserved spend has become. Raises `NotFound`."""
        rows = await self.database.write(
            f"UPDATE agent_spends SET job = :job WHERE id = :id AND session = :session RETURNING {_COLUMNS}",
            {"id": spend, "session": session, "job": job},
        )
        return _spend(_found(rows, spend))

    async def sessions(self) -> Sequence[AgentSession]:
        """Return every session with its sums, the last used first."""
        rows = await self.database.fetch(f"{_SUMS} FROM agent_spends GROUP BY session ORDER BY max(at) DESC, session")
        return [_session(row) for row in rows]

    async def session(self, name: str) -> AgentSession:
        """Return a session's sums; zeros if it has spent nothing."""
        rows = await self.database.fetch(
            f"{_SUMS} FROM agent_spends WHERE session = :name GROUP BY session", {"name": name}
        )
        now = await self.now()
        empty = AgentSession(session=name, spends=0, pages=0, credits=0, usd=Decimal(0), first_at=now, last_at=now)
        return _session(rows[0]) if rows else empty

    async def spends(self, name: str, *, limit: int = 500) -> Sequence[AgentSpend]:
        """Return the spends of a session, newest first."""
        rows = await self.database.fetch(
            f"SELECT {_COLUMNS} FROM agent_spends WHERE session = :name ORDER BY id DESC LIMIT :limit",
            {"name": name, "limit": limit},
        )
        return [_spend(row) for row in rows]


_COLUMNS = "id, tool, about, job, pages, credits, micro_usd, settled, at"
_SUMS = (
    "SELECT session, count(*) AS spends, CAST(sum(pages) AS BIGINT) AS pages, CAST(sum(credits) AS BIGINT) AS credits,"
    " CAST(sum(micro_usd) AS BIGINT) AS micro_usd, min(at) AS first_at, max(at) AS last_at"
)


def _found(rows: Sequence[Row], spend: int) -> Row:
    if not rows:
        raise NotFound(f"The session has no spend {spend}.")
    return rows[0]


def _spend(row: Row) -> AgentSpend:
    return AgentSpend(**_in_dollars(row), settled=bool(row["settled"]), at=_moment(row["at"]))


def _session(row: Row) -> AgentSession:
    return AgentSession(**_in_dollars(row), first_at=_moment(row["first_at"]), last_at=_moment(row["last_at"]))


def _in_dollars(row: Row) -> dict[str, Any]:
    kept = {name: row[name] for name in row if name not in ("micro_usd", "settled", "at", "first_at", "last_at")}
    return {**kept, "usd": Decimal(row["micro_usd"]) / MICRO}


def _moment(ms: int) -> datetime:
    moment = at(ms)
    assert moment is not None  # noqa: S101 - the column is NOT NULL
    return moment


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def _micro(usd: Decimal) -> int:
    return int((usd * MICRO).to_integral_value(rounding="ROUND_UP"))


def _text(amounts: AgentAmounts | AgentSession) -> str:
    return f"{amounts.pages:,} pages, {amounts.credits:,} credits, ${amounts.usd:.4f}"
