"""The catalogue: list products with filters, show one, and how its price and stock changed."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi import Path as InPath
from pydantic import ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.kit.http.envelope import Envelope, Page, answer, page
from forager.kit.http.json_route import JsonRoute
from forager.kit.http.openapi import example, failures
from forager.kit.http.params import PageQuery
from forager.kit.http.task_waiter import TaskWaiter
from forager.kit.service import Service
from forager.pipelines.products import reports
from forager.pipelines.products.api_admin import add_admin
from forager.pipelines.products.api_examples import POINT, PRODUCT
from forager.pipelines.products.pipeline import NAME
from forager.pipelines.products.reports import PricePoint, ProductFilter, ProductReport

ProductId = Annotated[int, InPath(ge=1, lt=1 << 63)]
MOST_CHANGES = 1_000


class ProductsQuery(PageQuery, ProductFilter):
    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: int = Field(default=20, ge=1, le=1_000, description="Most items of this page.")

    def asked(self) -> ProductFilter:
        return ProductFilter(**self.model_dump(exclude=set(PageQuery.model_fields)))


def routes(service: Service, _: TaskWaiter) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=[NAME], route_class=JsonRoute)
    add_admin(router, service)
    _add_catalogue(router, service)
    return router


def _add_catalogue(router: APIRouter, service: Service) -> None:
    @router.get(
        "/products",
        summary="Find products",
        response_model=Page[ProductReport],
        responses={200: example([PRODUCT], next_cursor=None), **failures()},
    )
    async def find_products(request: Request, asked: Annotated[ProductsQuery, Query()]) -> Response:
        """Newest first. A page may be short, even empty, and still have a next one."""
        found = await reports.find_products(service.database, asked.asked(), cursor=asked.cursor, limit=asked.limit)
        return page(request, found.items, found.next_cursor)

    @router.get(
        "/products/{product_id}",
        summary="Show a product",
        response_model=Envelope[ProductReport],
        responses={200: example(PRODUCT), **failures(404)},
    )
    async def show_product(request: Request, product_id: ProductId) -> Response:
        """With its images, and by field where the value was found and how sure that is."""
        return answer(request, await reports.one_product(service.database, product_id))

    @router.get(
        "/products/{product_id}/history",
        summary="Show how the price and stock of a product changed",
        response_model=Envelope[list[PricePoint]],
        responses={200: example([POINT]), **failures(404)},
    )
    async def show_product_history(request: Request, product_id: ProductId) -> Response:
        """Newest first; of a product with more than 1,000 changes, the newest ones."""
        product = await reports.one_product(service.database, product_id)
        found = await service.reports.history("product", product.url_hash, limit=MOST_CHANGES)
        return answer(request, reports.price_points(found.items))
