"""A shop, simulated: from ten to a million product pages in several markups, whose prices and stock change."""

from forager.sandbox.shop.config import LAYOUTS, ShopConfig
from forager.sandbox.shop.products import Product, Shelf
from forager.sandbox.shop.server import ShopSandbox

__all__ = ["LAYOUTS", "Product", "Shelf", "ShopConfig", "ShopSandbox"]
