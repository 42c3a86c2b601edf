"""How the products pipeline is built from its settings and the parsers that are installed."""

from dataclasses import replace
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from forager.core.errors import FieldError, Rejected
from forager.core.hosts import one_spelling
from forager.core.pipeline import Pipeline
from forager.extract.products.parser import ENTRY_POINTS, Parser, Parsers
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
    return pipeline.build(
        parsers_of(own), timeout=timeout, retry=retry, downloads=downloads, shadow=own.product_shadow_share
    )


def parsers_of(own: ProductsSettings) -> Parsers:
    """Return the parsers of this installation, with the choices and candidates of the settings."""
    return parsers(own.product_parsers, own.product_parser_candidates)


def parsers(chosen: tuple[str, ...] = (), candidates: tuple[str, ...] = ()) -> Parsers:
    """Return the parsers of this installation. Raises `Rejected` for a choice that names none of them, and for a
    candidate that cannot be loaded."""
    tried = [candidate_of(each) for each in candidates]
    all_parsers = (*shipped_parsers(), *installed(ENTRY_POINTS), *tried)
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


def candidate_of(where: str) -> Parser:
    """Load a parser from a file with a value `parser`, or from `module:value`. Raises `Rejected`."""
    try:
        if where.endswith(".py"):
            spec = spec_from_file_location(f"forager_candidate_{Path(where).stem}", Path(where).expanduser().resolve())
            if spec is None or spec.loader is None:
                raise ImportError(f"{where} is not a Python file")
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            found = module.parser
        else:
            name, _, value = where.partition(":")
            found = getattr(import_module(name), value or "parser")
    except Exception as error:
        raise _wrong(f"{where} cannot be loaded: {error!r}", "product_parser_candidates") from error
    if not isinstance(found, Parser):
        raise _wrong(f"{where} has no Parser, but {type(found).__name__}", "product_parser_candidates")
    return replace(found, candidate=True)


def _wrong(message: str, field: str = "product_parsers") -> Rejected:
    return Rejected(f"{field}: {message}", fields=[FieldError(field, message)])
