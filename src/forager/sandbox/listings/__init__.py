"""Apartments for rent over time: the world, the rows that actors make of it, and the site that the pages lie on."""

from forager.sandbox.listings.homes import Home, home_of
from forager.sandbox.listings.timeline import Span, Timeline
from forager.sandbox.listings.world import Listing, ListingsWorld, Market

__all__ = ["Home", "Listing", "ListingsWorld", "Market", "Span", "Timeline", "home_of"]
