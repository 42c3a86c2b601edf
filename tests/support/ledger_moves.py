"""Strategies of the state machine over the ledger: plans, limits, records and the rarer parts of an effect."""

from datetime import UTC, datetime

from hypothesis import strategies as st

from forager.core.ledger import Extras
from forager.core.outcome import Gone, Reject
from forager.core.record import CLEAR
from tests.support.rig_pipelines import Item, Seen, Thing, count

LANES = ("api", "site")

PASSED = datetime(2026, 3, 1, tzinfo=UTC)
moments = st.sampled_from([PASSED, datetime(2026, 3, 2, tzinfo=UTC), datetime(2126, 3, 1, tzinfo=UTC)])
"""Two have passed, the other never comes."""
limits = st.fixed_dictionaries(
    {},
    optional={
        "max_cost": st.integers(0, 12),
        "concurrency": st.integers(1, 3),
        "batch_size": st.integers(1, 3),
        "turn": st.integers(0, 1),
    },
)
dues = st.sampled_from((None, None, -5, 3, 25))
"""Seconds from now until a task may run; None: it has no moment."""
plans = st.lists(st.tuples(st.sampled_from(LANES), st.integers(0, 2), st.booleans(), st.booleans(), dues), max_size=5)
names = st.sampled_from(("a", "b", "c"))
items = st.builds(
    Item,
    uid=names,
    title=st.none() | st.sampled_from(("x", "sole", "nothing")),
    price=st.none() | st.just(CLEAR) | st.decimals(0, 2, places=0),
    due=st.none() | st.just(CLEAR) | moments,
    etag=st.none() | st.just(CLEAR) | st.sampled_from(("1", "2")),
)
records = st.lists(
    st.builds(Thing, uid=names, size=st.none() | st.integers(0, 2), weak=st.none() | st.just("d"))
    | st.builds(Seen, uid=names)
    | items,
    max_size=2,
)


extras = st.none() | st.builds(
    Extras,
    updates=st.lists(items, max_size=1),
    gone=st.lists(st.builds(Gone, items, st.sampled_from(("not_found", "sold"))), max_size=1),
    rejected=st.lists(st.builds(Reject, st.just(Item), st.just("no price"), st.none()), max_size=1),
    effects=st.lists(st.just(count("told")), max_size=2),
)
