"""Routes of schemas: store, list, show, remove, and learn from examples. A job that names one gets a copy of it."""

import re
from typing import Annotated, Any

import orjson
from fastapi import Path as InPath
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.core.errors import FieldError, NotFound, ParseFailed, Rejected
from forager.core.table import Effect
from forager.extract.schemas.learn import learn_from
from forager.extract.schemas.spec import PageSchema
from forager.pipelines.scrape.job import LONGEST_URL, ScrapeJob, StoredSchema
from forager.sdk.http.envelope import Envelope, answer
from forager.sdk.http.routes import JsonRoute, Router, example, failures
from forager.sdk.queries import change_row, one_row, read_rows, remove_row
from forager.sdk.reports import Report
from forager.sdk.service import Service

MOST_EXAMPLES = 10
LONGEST_HTML = 1_500_000
LONGEST_NAME = 64
LEARNING = 30.0
"""CPU seconds to learn from all examples of a request."""
_NAME = re.compile(r"[a-z][a-z0-9_-]*")


def _named(name: str) -> str:
    if len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
        raise ValueError(f"should be lower-case letters, digits, - and _, begin with a letter, at most {LONGEST_NAME}")
    return name


SchemaName = Annotated[str, AfterValidator(_named), InPath(description="Name.", examples=["recipes"])]


class SchemaReport(Report):
    name: str
    body: dict[str, Any] = Field(description="The schema.")
    learnt: dict[str, Any] | None = Field(description="Checks of each field of a learnt schema.")


class ExamplePage(BaseModel):
    """A page, and the values that are wanted of it."""

    model_config = ConfigDict(extra="forbid")

    url: str = Field(max_length=LONGEST_URL, examples=["https://recipes.example/1"])
    html: str = Field(min_length=1, max_length=LONGEST_HTML, examples=["<h1>Soup</h1>"])
    values: dict[str, str | int | float | bool] = Field(min_length=1, max_length=100, examples=[{"title": "Soup"}])


class LearnRequest(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "examples": [
                        {
                            "url": "https://shop.example/p/1",
                            "html": "<h1>Oak table</h1>",
                            "values": {"title": "Oak table"},
                        },
                        {
                            "url": "https://shop.example/p/2",
                            "html": "<h1>Pine chair</h1>",
                            "values": {"title": "Pine chair"},
                        },
                    ]
                }
            ]
        },
    )

    examples: list[ExamplePage] = Field(min_length=1, max_length=MOST_EXAMPLES)


class LearntReport(BaseModel):
    body: dict[str, Any] | None = Field(description="The schema; null if no field was found.")
    checked: dict[str, str] = Field(description="Number of pages on which leave-one-out found the value, by field.")
    unsure: dict[str, str] = Field(description="Reasons why a path may be wrong or missing, by field.")


async def stored_schema(service: Service, name: str) -> PageSchema | None:
    """Return a stored schema, or None."""
    row = await one_row(service.database, StoredSchema, name=name)
    return None if row is None else PageSchema.model_validate(row.body)


async def with_schemas(service: Service, job: Any) -> Any:
    """Return the job with a copy of each schema that it names. Raises `Rejected`, naming the target, if one is not
    stored."""
    if not isinstance(job, ScrapeJob) or not any(isinstance(each.page_schema, str) for each in job.targets):
        return job
    known: dict[str, PageSchema | None] = {}
    targets, wrong = [], []
    for number, target in enumerate(job.targets):
        name = target.page_schema
        if isinstance(name, str):
            if name not in known:
                known[name] = await stored_schema(service, name)
            if (schema := known[name]) is None:
                message = f"there is no schema {name[:64]!r}; see `forager schemas list`, or send the schema itself"
                wrong.append(FieldError(f"targets.{number}.schema", message))
                continue
            target = target.model_copy(update={"page_schema": schema})
        targets.append(target)
    if wrong:
        raise Rejected("The scrape job is not valid.", fields=wrong)
    whole = job.model_copy(update={"targets": tuple(targets)})
    service.pipelines["scrape"].check(whole)  # a part of a job was checked before its names were known
    return whole


def schema_routes(service: Service) -> Router:
    router = Router(prefix="/api/v1/schemas", tags=["scrape"], route_class=JsonRoute)

    @router.get(
        "",
        summary="List schemas",
        response_model=Envelope[list[SchemaReport]],
        responses={200: example([_SCHEMA]), **failures()},
    )
    async def list_schemas(request: Request) -> Response:
        """Lists the stored schemas, sorted by name."""
        return answer(request, [_report(row) for row in await read_rows(service.database, StoredSchema)])

    @router.post(
        "/learn",
        summary="Learn a schema",
        response_model=Envelope[LearntReport],
        responses={200: example(_LEARNT), **failures(body=True)},
    )
    async def learn_schema(request: Request, body: LearnRequest) -> Response:
        """Finds paths to the values of one to ten example pages and checks them by leave-one-out. Stores nothing."""
        pages = orjson.dumps([each.model_dump() for each in body.examples])
        try:
            learnt = await service.offload(learn_from, pages, limit=LEARNING)
        except ParseFailed as error:
            message = f"these pages cannot be learnt from: {error.message} Send fewer or smaller ones"
            raise Rejected(f"examples: {message}.", fields=[FieldError("examples", message)]) from error
        found = learnt.schema().as_json() if learnt.fields else None
        return answer(request, LearntReport(body=found, checked=learnt.checked, unsure=learnt.unsure))

    @router.put(
        "/{name}",
        summary="Store a schema",
        response_model=Envelope[SchemaReport],
        responses={200: example(_SCHEMA), **failures(body=True)},
    )
    async def put_schema(request: Request, name: SchemaName, body: PageSchema) -> Response:
        """Replaces a schema of the same name. Existing jobs keep their own copy."""
        bases = service.pipelines["scrape"].check
        bases(ScrapeJob.model_validate({"targets": [{"url": "https://example.com/", "schema": body}]}))
        await change_row(
            service.database, Effect(StoredSchema, {"name": name}, set={"body": body.as_json()}, insert=True)
        )
        return answer(request, await _one(service, name))

    @router.get(
        "/{name}",
        summary="Show a schema",
        response_model=Envelope[SchemaReport],
        responses={200: example(_SCHEMA), **failures(404)},
    )
    async def show_schema(request: Request, name: SchemaName) -> Response:
        """As it is stored."""
        return answer(request, await _one(service, name))

    @router.delete(
        "/{name}",
        summary="Remove a schema",
        response_model=Envelope[SchemaReport],
        responses={200: example(_SCHEMA), **failures(404)},
    )
    async def remove_schema(request: Request, name: SchemaName) -> Response:
        """Jobs that were created with it keep their copy."""
        report = await _one(service, name)
        await remove_row(service.database, StoredSchema, name=name)
        return answer(request, report)

    return router


async def _one(service: Service, name: str) -> SchemaReport:
    row = await one_row(service.database, StoredSchema, name=name)
    if row is None:
        raise NotFound(f"There is no schema {name!r}. See `forager schemas list`.")
    return _report(row)


def _report(row: StoredSchema) -> SchemaReport:
    return SchemaReport(name=row.name, body=row.body, learnt=row.learnt)


_BODY = {"fields": {"title": {"type": "string", "css": "h1"}}}
_SCHEMA = {"name": "recipes", "body": _BODY, "learnt": None}
_LEARNT = {"body": _BODY, "checked": {"title": "3 of 3"}, "unsure": {}}
