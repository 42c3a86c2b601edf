"""The shared data set, where it is: `FORAGER_DATA`, else beside the checkout. Tests over it are skipped elsewhere."""

import os
from pathlib import Path

import pytest

_BESIDE = Path(__file__).parents[3] / "shared" / "data"


def shared_data(*parts: str) -> Path:
    """A file or folder of the data set, or the test is skipped."""
    path = Path(os.environ.get("FORAGER_DATA") or _BESIDE).joinpath(*parts)
    if not path.exists():
        pytest.skip(f"the shared data set is not here: set FORAGER_DATA ({'/'.join(parts)} is missing)")
    return path
