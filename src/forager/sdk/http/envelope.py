"""The shape of every JSON response: `{success, data, error, meta}`.

The models are what OpenAPI shows. `answer` and `refusal` write the same shape directly to bytes, because building a
model per response would cost more than the route itself.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar
from uuid import UUID

import orjson
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from forager.core.errors import FieldError

T = TypeVar("T")

JSON = "application/json"
MOST_FIELDS = 100
"""Maximum field errors in one response; a body may have 50,000 wrong values."""

RequestId = Annotated[
    str,
    Field(
        description="Id of this request, also in the header X-Request-ID and in the log.",
        examples=["8b0c7d1e-3f6a-4c52-9a38-6a1f1f0d9c11"],
    ),
]


class ResponseMeta(BaseModel):
    """Metadata of a response."""

    request_id: RequestId
    warnings: Annotated[
        list[str] | None, Field(description="Doubts about the request, which was carried out nevertheless.")
    ] = None


class AboutPage(ResponseMeta):
    next_cursor: Annotated[
        str | None,
        Field(description="Send this as `cursor` to get the next page; null on the last page.", examples=[None]),
    ] = None


class WrongField(BaseModel):
    field: Annotated[str, Field(examples=["state"])]
    message: Annotated[str, Field(examples=["ZA is not a state of the ZIP reference data; did you mean AZ?"])]


class AboutFailure(ResponseMeta):
    code: Annotated[str, Field(description="The kind of error, for programs.", examples=["invalid"])]
    fields: Annotated[list[WrongField] | None, Field(description="Errors by field of the request.")] = None
    reason: Annotated[
        str | None, Field(description="Why a page could not be fetched, as a code.", examples=["robots"])
    ] = None
    task_id: Annotated[
        UUID | None, Field(description="The task that the error is about; its result can be fetched later.")
    ] = None


class Envelope(BaseModel, Generic[T]):
    success: Literal[True]
    data: T
    error: None
    meta: ResponseMeta


class ResultPage(BaseModel, Generic[T]):
    """One page of a list, with the cursor of the next one."""

    success: Literal[True]
    data: list[T]
    error: None
    meta: AboutPage


class Failure(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "success": False,
                    "data": None,
                    "error": "The places job is not valid.",
                    "meta": {
                        "request_id": "8b0c7d1e-3f6a-4c52-9a38-6a1f1f0d9c11",
                        "code": "invalid",
                        "fields": [{"field": "keyword", "message": "is required"}],
                    },
                }
            ]
        }
    )

    success: Literal[False]
    data: None
    error: Annotated[str, Field(description="The error and its remedy.")]
    meta: AboutFailure


def answer(
    request: Request,
    data: Any,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    warnings: Sequence[str] = (),
    **about: Any,
) -> Response:
    told = {"request_id": request_id(request.scope), **about, **({"warnings": warnings} if warnings else {})}
    envelope = {"success": True, "data": data, "error": None, "meta": told}
    return Response(encoded(envelope), status, dict(headers) if headers else None, JSON)


def page(request: Request, items: Sequence[Any], next_cursor: str | None) -> Response:
    about = {"request_id": request_id(request.scope), "next_cursor": next_cursor}
    return Response(encoded({"success": True, "data": items, "error": None, "meta": about}), 200, None, JSON)


def refusal(
    scope: Scope,
    status: int,
    code: str,
    message: str,
    *,
    fields: Sequence[FieldError] = (),
    headers: Mapping[str, str] | None = None,
    **more: Any,
) -> Response:
    about: dict[str, Any] = {"request_id": request_id(scope), "code": code, **more}
    if fields:
        about["fields"] = [{"field": f.field, "message": f.message} for f in fields[:MOST_FIELDS]]
    envelope = {"success": False, "data": None, "error": message, "meta": about}
    return Response(encoded(envelope), status, dict(headers) if headers else None, JSON)


def request_id(scope: Scope) -> str:
    """Return the id that the outermost middleware (`api/create.py`) gave to this request."""
    return str(scope["state"]["request_id"])


def encoded(value: Any) -> bytes:
    return orjson.dumps(value, default=_plain, option=orjson.OPT_UTC_Z)


def _plain(value: Any) -> Any:
    """Convert values that orjson does not support. Money becomes text, to keep its digits."""
    if isinstance(value, BaseModel):
        return value.model_dump()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
