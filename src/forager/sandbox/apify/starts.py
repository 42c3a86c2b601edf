"""The options of a start: time, memory, and what it may cost. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from forager.sandbox.apify import errors
from forager.sandbox.apify.config import ApifyConfig
from forager.sandbox.upstream import Reply

_MEMORY = 1024
_TIMEOUT = 3600


class Start(NamedTuple):
    timeout: float
    memory: int
    max_items: int | None
    max_charge: float | None


def read_start(query: Mapping[str, str], config: ApifyConfig) -> Start | Reply:
    """The options of a start; a reply if one of them is refused."""
    memory, timeout = query.get("memory", str(_MEMORY)), query.get("timeout", str(_TIMEOUT))
    if not memory.isdigit() or int(memory) < 128 or int(memory) & (int(memory) - 1):
        return errors.invalid_value("Memory must be a power of 2 and at least 128 MB")
    if not timeout.isdigit():
        return errors.invalid_value("Timeout must be a whole number of seconds")
    items, charge = query.get("maxItems"), _amount(query.get("maxTotalChargeUsd"))
    if items is not None and not items.isdigit():
        return errors.invalid_value("maxItems must be a whole number")
    if charge is not None and charge < config.least_charge_usd:
        message = f"Parameter maxTotalChargeUsd must be at least {config.least_charge_usd}"
        return errors.error(400, "max-total-charge-usd-below-minimum", message)
    return Start(float(timeout), int(memory), None if items is None else int(items), charge)


def _amount(text: str | None) -> float | None:
    """Money of a parameter; an unreadable one counts as 0, which is below every minimum."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return 0.0
