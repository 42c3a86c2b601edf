"""What a record may hold."""

from typing import ClassVar

import pytest
from pydantic import ValidationError

from forager.core.record import Record


class Reading(Record):
    kind: ClassVar[str] = "reading"
    table: ClassVar[str] = "readings"
    key_field: ClassVar[str] = "name"

    name: str
    value: float | None = None


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_a_number_that_no_store_keeps_alike_is_refused(value: float) -> None:
    with pytest.raises(ValidationError, match="finite"):
        Reading(name="a", value=value)
