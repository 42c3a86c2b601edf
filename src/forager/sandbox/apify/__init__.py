"""Apify and the listings site behind its apartments actors, simulated over the world's time."""

from forager.sandbox.apify.config import ApifyConfig, RunRule
from forager.sandbox.apify.inputs import API_ACTOR, OLD_ACTOR
from forager.sandbox.apify.runs import Run
from forager.sandbox.apify.server import ApifySandbox

__all__ = ["API_ACTOR", "OLD_ACTOR", "ApifyConfig", "ApifySandbox", "Run", "RunRule"]
