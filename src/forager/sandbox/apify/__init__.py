"""Apify and the listings site behind its apartments actors, simulated over the world's time."""

from forager.sandbox.apify.config import ApifyConfig, RunRule
from forager.sandbox.apify.runs import API_ACTOR, OLD_ACTOR, SimulatedRun
from forager.sandbox.apify.server import ApifySandbox

__all__ = ["API_ACTOR", "OLD_ACTOR", "ApifyConfig", "ApifySandbox", "RunRule", "SimulatedRun"]
