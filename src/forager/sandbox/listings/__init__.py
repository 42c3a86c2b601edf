"""Apartments for rent over time: the world, the rows that actors make of it, and the site that the pages are on."""

from forager.sandbox.listings.homes import SimulatedHome, home_of
from forager.sandbox.listings.world import ListingsWorld, SimulatedListing, SimulatedMarket, Span, Timeline

__all__ = ["ListingsWorld", "SimulatedHome", "SimulatedListing", "SimulatedMarket", "Span", "Timeline", "home_of"]
