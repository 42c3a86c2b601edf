"""The settings of the products pipeline."""

from functools import partial
from typing import Literal

from forager.sdk.settings import FeatureSettings, Texts, setting

_products = partial(setting, group="Products")


class ProductsSettings(FeatureSettings):
    product_timeout_seconds: float = _products(30.0, "Time for one page.", gt=0, le=600)
    product_parsers: Texts = _products(
        (), "Parsers by domain, as `shop.example=amazon`, separated by commas; others are chosen by the page's domain."
    )
    product_parser_candidates: Texts = _products(
        (),
        "Parsers to try beside those in force: files (`harbour.py`) or values (`my_parsers.harbour:parser`), separated"
        " by commas.",
    )
    product_shadow_share: float = _products(
        1.0, "Share of crawled pages on which a candidate parser runs as well; 0: none.", ge=0, le=1
    )
    product_wrappers: Literal["adopt", "propose", "off"] = _products(
        "adopt",
        "Wrappers that a shop's pages teach: adopt those that fulfil the rule, only propose them, or do not learn.",
    )
    product_images_max: int = _products(
        20, "Pictures to download of one product while Forager runs; 0 downloads none.", ge=0, le=20, common=True
    )
    product_image_max_bytes: int = _products(
        10 * 1024 * 1024, "Largest picture that is downloaded, in bytes.", ge=1_024, le=100 * 1024 * 1024
    )
    product_retry_delay_seconds: float = _products(
        5.0, "Wait before the first retry of a page; it doubles with every further one.", gt=0, le=3_600
    )
