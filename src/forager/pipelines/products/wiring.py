"""How the products pipeline is built from its settings and the parsers that are installed."""

from dataclasses import replace

from forager.core.errors import FieldError, Rejected
from forager.core.hosts import one_spelling
from forager.core.pipeline import Pipeline
from forager.extract.products.parser import ENTRY_POINTS, Parsers
from forager.extract.products.parsers import shipped_parsers
from forager.kit.plugins import installed
from forager.kit.settings import SettingsTree
from forager.pipelines.products import pipeline
from forager.pipelines.products.pictures import Downloads
from forager.pipelines.products.settings import ProductsSettings


def build(settings: SettingsTree) -> Pipeline:
    own = settings.of(ProductsSettings)
    retry = replace(pipeline.RETRY, first=own.product_retry_delay_seconds)
    timeout = own.product_timeout_seconds
    downloads = Downloads(own.product_images_max, own.product_image_max_bytes, timeout)
    return pipeline.build(parsers(own.product_parsers), timeout=timeout, retry=retry, downloads=downloads)


def parsers(chosen: tuple[str, ...] = ()) -> Parsers:
    """The parsers of this installation. Raises `Rejected` for a choice that names none of them."""
    all_parsers = (*shipped_parsers(), *installed(ENTRY_POINTS))
    by_domain = {}
    for each in chosen:
        domain, _, name = each.partition("=")
        if not domain.strip() or not name.strip():
            raise _wrong(f"{each!r} should be a domain and a parser, as shop.example=amazon")
        by_domain[one_spelling(domain)] = name.strip()
    try:
        return Parsers.of(all_parsers, by_domain)
    except ValueError as error:
        raise _wrong(str(error)) from None


def _wrong(message: str) -> Rejected:
    return Rejected(f"product_parsers: {message}", fields=[FieldError("product_parsers", message)])
