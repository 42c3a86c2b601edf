"""Settles a group of outcomes, and one by one after the store has refused the group. An outcome that is refused alone
becomes a dead letter, so that it does not block the others for ever.

Never used while the store is unavailable or full: then every outcome waits until it is back.
"""

import traceback
from collections.abc import Sequence

import structlog

from forager.core.errors import Evidence, StoreFull, StoreUnavailable
from forager.core.ledger import LeaseBatch, Ledger, Session, Settlement, Want
from forager.core.reasons import ErrorType, Reason
from forager.core.states import TaskState

log = structlog.get_logger("forager.engine")


async def settle_together(
    ledger: Ledger, session: Session, left: list[Settlement], wants: Sequence[Want] = ()
) -> LeaseBatch | None:
    """Settle a group and lease what is wanted, in one transaction.

    Returns None, with nothing settled or leased, if the group was refused: then call `settle_apart`. Raises if the
    store is full or does not answer, or if there was nothing to settle.
    """
    try:
        return await ledger.settle_and_lease(session, list(left), wants)
    except (StoreFull, StoreUnavailable):
        raise
    except Exception:
        if not left:
            raise
        log.exception("a group could not be settled: its members are settled one by one")
        return None


async def settle_apart(ledger: Ledger, session: Session, left: list[Settlement]) -> list[int]:
    """Settle one by one, and remove from `left` what is settled. Returns the tasks whose claim was lost."""
    fenced: list[int] = []
    while left:
        try:
            batch = await ledger.settle_and_lease(session, left[:1], [])
        except (StoreFull, StoreUnavailable):
            raise
        except Exception as error:
            if left[0].state is TaskState.FAILED and left[0].evidence is None:
                raise  # even a plain failure is refused: the outcome is not the cause
            left[0] = _without_findings(left[0], error)
            continue
        fenced.extend(batch.fenced)
        del left[0]
    return fenced


def _without_findings(refused: Settlement, error: Exception) -> Settlement:
    """Return a failed settlement with the reason, and with the trace as evidence unless evidence was the cause."""
    trace = None
    if refused.state is not TaskState.FAILED:
        trace = Evidence("".join(traceback.format_exception(error)).encode())
    message = f"What it ended with could not be stored: {type(error).__name__}: {error}"
    return Settlement(
        refused.lease,
        TaskState.FAILED,
        cost=refused.cost,
        guessed=refused.guessed,
        error=message,
        reason=Reason.UNSTORABLE,
        error_type=ErrorType.STORAGE,
        evidence=trace,
    )
