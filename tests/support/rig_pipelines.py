"""The pipelines of the rig: tasks, records and a table with every feature that the ledger must store.

Their steps never run: contract tests play the engine and settle the tasks themselves.
"""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field

from forager.core.pipeline import Aftermath, JobEnd, Lane, Pipeline, TaskEnd, step
from forager.core.recheck import recheck
from forager.core.record import Clear, Index, Record
from forager.core.states import TaskState
from forager.core.table import Effect, TableRow
from forager.core.task import Plan, Task
from forager.ledger.catalog import Catalog


class Call(Task):
    kind: ClassVar[str] = "call"
    name: str
    where: str = "api"

    def key(self) -> str:
        return self.name

    def lane(self) -> str:
        return self.where


class DearCall(Call):
    kind: ClassVar[str] = "dear-call"


class SoleCall(Call):
    """One of them is open for each key, over all jobs."""

    kind: ClassVar[str] = "sole-call"


class LoudCall(Call):
    """Its end is written to the change log."""

    kind: ClassVar[str] = "loud-call"


class OddCall(Call):
    """The name of the job selects the effect of its hook."""

    kind: ClassVar[str] = "odd-call"


class Thing(Record):
    """Known by its `uid`; `weak` is another name that some answers also show."""

    kind: ClassVar[str] = "thing"
    table: ClassVar[str] = "rig_things"
    key_field: ClassVar[str] = "uid"
    identity: ClassVar[str | None] = "thing"
    indexes: ClassVar[tuple[Index, ...]] = (Index(("title",)),)
    uid: str
    title: str | None = None
    size: int | None = None
    open: bool | None = None
    tags: list[str] | None = None
    weak: str | None = None

    def other_keys(self) -> tuple[str, ...]:
        return (self.weak,) if self.weak else ()


class Seen(Record):
    kind: ClassVar[str] = "seen"
    table: ClassVar[str] = "rig_seen"
    key_field: ClassVar[str] = "uid"
    identity: ClassVar[str | None] = "thing"
    scope: ClassVar[Literal["world", "job"]] = "job"
    uid: str
    note: str | None = None


class Item(Record):
    """A page that is crawled repeatedly: it has quiet, clearable and derived fields."""

    kind: ClassVar[str] = "item"
    table: ClassVar[str] = "rig_items"
    key_field: ClassVar[str] = "uid"
    identity: ClassVar[str | None] = "item"
    quiet: ClassVar[frozenset[str]] = frozenset({"due", "etag", "every"})
    indexes: ClassVar[tuple[Index, ...]] = (
        Index(("due", "uid"), where="due IS NOT NULL"),
        Index(("price DESC", "id"), where="gone_at IS NULL"),
    )
    uid: str
    title: str | None = None
    price: Decimal | Clear | None = None
    stock: Literal["in", "out"] | None = None
    parts: list[str] | None = None
    weak: str | None = None
    due: datetime | Clear | None = None
    etag: str | Clear | None = None
    every: int | None = None
    """Derived: half of what it was when the price changed, else one more."""
    content: str | None = None
    """Derived: what is known of the thing itself."""

    def other_keys(self) -> tuple[str, ...]:
        return (self.weak,) if self.weak else ()

    def derive(self, before: "Item | None") -> dict[str, Any]:
        every = 16 if before is None else before.every or 16
        if before is not None:
            every = every // 2 if before.price != self.price else every + 1
        return {"content": f"{self.title}/{self.price}/{self.stock}/{self.parts}", "every": every}


class Tally(TableRow):
    table: ClassVar[str] = "rig_tallies"
    key: ClassVar[tuple[str, ...]] = ("name",)
    stamped: ClassVar[frozenset[str]] = frozenset({"created_at"})
    indexes: ClassVar[tuple[Index, ...]] = (Index(("note",), where="note IS NOT NULL", unique=True),)
    name: str
    count: int = 0
    worth: Decimal = Decimal("1.50")
    share: float | None = None
    open: bool = True
    tier: Literal["hot", "it's cool"] = "it's cool"
    tags: list[str] = Field(default_factory=list)
    note: str | None = None
    seen_at: datetime | None = None
    created_at: datetime | None = None


def count(name: str) -> Effect:
    return Effect(Tally, {"name": name}, add={"count": 1}, insert=True)


def dear_call_ended(call: DearCall, end: TaskEnd) -> Aftermath:
    return Aftermath([count(f"ended {end.state.name.lower()}")])


def odd_call_ended(call: OddCall, end: TaskEnd) -> Aftermath | None:
    if call.name == "breaks":
        raise ZeroDivisionError("a defect of the pipeline")
    if call.name == "refused":
        return Aftermath([Effect(Tally, {"name": "b"}, set={"note": "taken"}), count("after refused")])
    if call.name == "updates":
        return Aftermath(updates=[Item(uid="a", etag=f"{end.state.name} {end.reason} {end.attempts}")])
    return None


def job_ended(job: "RigJob", end: JobEnd) -> list[Effect]:
    if job.name == "breaks":
        raise ZeroDivisionError("a defect of the pipeline")
    return [count(f"job {end.state}"), Effect(Tally, {"name": f"of {job.name}"}, add={"count": end.completed})]


class RigJob(BaseModel):
    name: str = "job"


def look_again(item: Item) -> Plan | Task | None:
    """The rule of the rig's recheck. What it does is in the item's title."""
    if item.title == "breaks":
        raise ZeroDivisionError("a defect of the rule")
    if item.title == "nothing":
        return None
    if item.title == "later" and isinstance(item.due, datetime):
        return Plan(Call(name=f"look {item.uid}"), due=item.due + timedelta(days=1))
    return SoleCall(name=f"look {item.uid}") if item.title == "sole" else Call(name=f"look {item.uid}")


RECHECK = recheck(Item, due="due", task=look_again, params={"name": "recheck"})


async def _never_run(task: Any, fetch: Any) -> Any:
    raise AssertionError("the ledger runs no step")


PIPELINE = Pipeline(
    name="rig",
    params=RigJob,
    plan=lambda job: (),
    steps=(
        step(Call, _never_run, price=1),
        step(DearCall, _never_run, price=5, attempts=True, on_end=dear_call_ended),
        step(OddCall, _never_run, on_end=odd_call_ended),
        step(SoleCall, _never_run, price=1, one_open=True),
    ),
    tables=(Tally,),
    on_job_end=job_ended,
    records=(Thing, Seen, Item),
    rechecks=(RECHECK,),
    lanes=(Lane("api"), Lane("site")),
)
LOUD = Pipeline(
    name="loud",
    params=RigJob,
    plan=lambda job: (),
    steps=(step(LoudCall, _never_run, price=1),),
    lanes=(Lane("api"),),
    logged_states=frozenset({TaskState.FAILED, TaskState.SKIPPED, TaskState.CANCELLED}),
)
RECORDS = (Thing, Seen, Item)


def catalog() -> Catalog:
    return Catalog([PIPELINE, LOUD])


def calls(count: int, *, where: str = "api", prefix: str = "t", rank: int = 0) -> list[Plan]:
    return [Plan(Call(name=f"{prefix}{i}", where=where), rank=rank) for i in range(count)]


def chain(*names: str, where: str = "api") -> list[Plan]:
    """Tasks, each of which comes after the one before it."""
    before: list[str | None] = [None, *names]
    return [Plan(Call(name=n, where=where), rank=i, after=before[i]) for i, n in enumerate(names)]
