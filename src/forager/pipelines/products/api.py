"""The catalogue: list products with filters, show one, and how its price and stock changed."""

from typing import Annotated

from fastapi import Path as InPath
from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.kit.http.envelope import Envelope, Page, answer, page
from forager.kit.http.json_route import JsonRoute
from forager.kit.http.openapi import example, failures
from forager.kit.http.params import PageQuery
from forager.kit.http.routes import Router
from forager.kit.http.task_waiter import TaskWaiter
from forager.kit.service import Service
from forager.pipelines.products import reports
from forager.pipelines.products.api_admin import add_admin
from forager.pipelines.products.api_examples import DETAILS, POINT, PRODUCT, SEARCH
from forager.pipelines.products.api_health import add_health
from forager.pipelines.products.api_parts import add_parts
from forager.pipelines.products.pipeline import NAME
from forager.pipelines.products.records import Product
from forager.pipelines.products.reports import PricePoint, ProductConditions, ProductFilter, ProductReport
from forager.pipelines.products.reports_product import ProductDetails, history_of, one_product
from forager.pipelines.products.reports_search import SearchReport, search_products

ProductId = Annotated[int, InPath(ge=1, lt=1 << 63)]
REBUILT_AT_ONCE = 20_000


class ProductsQuery(PageQuery, ProductFilter):
    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: int = Field(default=20, ge=1, le=1_000, description="Maximum items per page.")

    def asked(self) -> ProductFilter:
        return ProductFilter(**self.model_dump(exclude=set(PageQuery.model_fields)))


class SearchQuery(PageQuery, ProductConditions):
    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: int = Field(default=20, ge=1, le=1_000, description="Maximum items per page.")
    q: str = Field(min_length=1, max_length=400, description="Words to look for; all of them must be there.")

    def asked(self) -> ProductConditions:
        return ProductConditions(**self.model_dump(exclude={*PageQuery.model_fields, "q"}))


class Reindexed(BaseModel):
    left: int = Field(description="Products that are not in the index yet: call again until it is 0.")


def routes(service: Service, _: TaskWaiter) -> Router:
    router = Router(prefix="/api/v1", tags=[NAME], route_class=JsonRoute)
    add_admin(router, service)
    add_parts(router, service)
    add_health(router, service)
    _add_search(router, service)
    _add_catalogue(router, service)
    return router


def _add_search(router: Router, service: Service) -> None:
    index = service.search_index(Product)

    @router.get(
        "/products/search",
        summary="Search products",
        response_model=Envelope[SearchReport],
        responses={200: example(SEARCH), **failures()},
    )
    async def search(request: Request, asked: Annotated[SearchQuery, Query()]) -> Response:
        """Best first, by the words of name, brand, category and description. A word of five letters or more is found
        with one wrong letter, too, if the words as written find little."""
        hits = await search_products(
            service.database, index, asked.q, asked.asked(), cursor=asked.cursor, limit=asked.limit
        )
        return answer(request, hits)

    @router.post(
        "/products/search/rebuild",
        summary="Rebuild the search index",
        response_model=Envelope[Reindexed],
        responses={200: example({"left": 0}), **failures(409)},
    )
    async def rebuild(request: Request, go_on: bool = False) -> Response:
        """Fills the index from the stored products, part by part: repeat with `go_on=true` until nothing is left. An
        external index stays searchable meanwhile, and a second rebuild beside the first is refused."""
        return answer(request, {"left": await index.rebuild(REBUILT_AT_ONCE, go_on=go_on)})


def _add_catalogue(router: Router, service: Service) -> None:
    @router.get(
        "/products",
        summary="Find products",
        response_model=Page[ProductReport],
        responses={200: example([PRODUCT], next_cursor=None), **failures()},
    )
    async def find_products(request: Request, asked: Annotated[ProductsQuery, Query()]) -> Response:
        """Newest first, or as `sort` has it. A page may be short, even empty, and still have a next one."""
        products = await reports.find_products(service.database, asked.asked(), cursor=asked.cursor, limit=asked.limit)
        return page(request, products.items, products.next_cursor)

    @router.get(
        "/products/{product_id}",
        summary="Show a product",
        response_model=Envelope[ProductDetails],
        responses={200: example(DETAILS), **failures(404)},
    )
    async def show_product(request: Request, product_id: ProductId) -> Response:
        """With its images and its price history, and by field where the value was found and how sure that is."""
        return answer(request, await one_product(service, product_id))

    @router.get(
        "/products/{product_id}/history",
        summary="Show how the price and stock of a product changed",
        response_model=Envelope[list[PricePoint]],
        responses={200: example([POINT]), **failures(404)},
    )
    async def show_product_history(request: Request, product_id: ProductId) -> Response:
        """Newest first; of a product with more than 1,000 changes, the newest ones."""
        return answer(request, await history_of(service, product_id))
