"""Broken builds, the negative controls: defects that the simulation must find within 200 seeds. If it did not, a seed
without findings would prove nothing."""

from collections.abc import Callable, Sequence
from typing import Any

from forager.core.ledger import Settlement
from forager.fetch.http.fetcher import HttpFetcher
from forager.ledger.sqlite import settle

WITHIN = 200


def without_fence() -> None:
    """A settlement has its effect whatever claim it carries."""
    whole = vars(settle)["_pass_the_fence"]

    def pass_the_fence(db: Any, all_: Sequence[Settlement]) -> Any:
        _, followed, _ = whole(db, all_)
        return list(all_), followed, []

    vars(settle)["_pass_the_fence"] = pass_the_fence


def split_commit() -> None:
    """Task states are committed first, the records in a second transaction."""
    for name in ("store_in_order", "store_records"):
        vars(settle)[name] = _after_a_commit(vars(settle)[name])


def _after_a_commit(whole: Callable[..., Any]) -> Callable[..., Any]:
    def second(db: Any, *rest: Any) -> Any:
        db.execute("COMMIT")
        db.execute("BEGIN IMMEDIATE")
        db.execute("SAVEPOINT command")
        return whole(db, *rest)

    return second


def skipped_counter() -> None:
    """One in 40 writes of counters is skipped."""
    whole, calls = vars(settle)["write_deltas"], [0]

    def write_deltas(db: Any, deltas: Any) -> None:
        calls[0] += 1
        if calls[0] % 40:
            whole(db, deltas)

    vars(settle)["write_deltas"] = write_deltas


def reused_signature() -> None:
    """A message is signed once, and each later try sends the first signature again."""
    whole, made = HttpFetcher._signature, dict[str, Any]()

    def signature(self: HttpFetcher, request: Any, ref: Any) -> Any:
        if ref.id not in made:
            made[ref.id] = whole(self, request, ref)
        return made[ref.id]

    HttpFetcher._signature = signature  # type: ignore[method-assign]


BUILDS: dict[str, Callable[[], None]] = {
    "without-fence": without_fence,
    "split-commit": split_commit,
    "skipped-counter": skipped_counter,
    "reused-signature": reused_signature,
}
CAUGHT_BEFORE: dict[str, tuple[int, ...]] = {
    "without-fence": (13,),
    "split-commit": (2,),
    "skipped-counter": (2,),
    "reused-signature": (4,),
}
"""Seeds that have caught each build. They are tried first, so that a check is short; then all others are."""
