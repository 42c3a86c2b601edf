"""The client of the API for Python programs, and what finds a running Forager or opens the store in this process.

    from forager.client import Forager

`Forager` and `AsyncForager` are imported when they are used: commands need only `connect.py`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forager.client.errors import (
        ApiConflict,
        ApiError,
        ApiFault,
        ApiForbidden,
        ApiInvalid,
        ApiNoAnswer,
        ApiNotFound,
        ApiUnauthorized,
        ApiUnavailable,
        JobNotCompleted,
        PackageMissing,
        PageFailed,
    )
    from forager.client.forager import AsyncForager, Forager
    from forager.client.groups import ChangeSeen, PageResult

_WHERE = {
    **dict.fromkeys(("Forager", "AsyncForager"), "forager.client.forager"),
    **dict.fromkeys(("ChangeSeen", "PageResult"), "forager.client.groups"),
}

__all__ = [
    "ApiConflict",
    "ApiError",
    "ApiFault",
    "ApiForbidden",
    "ApiInvalid",
    "ApiNoAnswer",
    "ApiNotFound",
    "ApiUnauthorized",
    "ApiUnavailable",
    "AsyncForager",
    "ChangeSeen",
    "Forager",
    "JobNotCompleted",
    "PackageMissing",
    "PageFailed",
    "PageResult",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'forager.client' has no attribute {name!r}")
    return getattr(import_module(_WHERE.get(name, "forager.client.errors")), name)
