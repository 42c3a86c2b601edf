"""A shop, simulated: from ten to a million product pages in several markups, whose prices and stock change."""

from forager.sandbox.shop.products import LAYOUTS, Shelf, ShopConfig, SimulatedProduct
from forager.sandbox.shop.server import ShopSandbox

__all__ = ["LAYOUTS", "Shelf", "ShopConfig", "ShopSandbox", "SimulatedProduct"]
