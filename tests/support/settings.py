"""Settings that come from nowhere but the test."""

from collections.abc import Callable
from typing import Any

import pytest

from forager.core.errors import Rejected
from forager.settings import Settings

Load = Callable[..., Settings]


def refusal(load: Load, **sources: Any) -> Rejected:
    with pytest.raises(Rejected) as caught:
        load(**sources)
    return caught.value
