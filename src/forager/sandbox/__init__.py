"""Simulated upstreams: deterministic by seed, with the faults of the real ones, and a log of every request.

Serper's places API, Google Business Profile, Apify with a listings site, a shop, web sites to be polite to, a
receiver of webhooks, a backend that keeps logins, a language model, an unblocking service. They start inside `demo` and
tests; the APIs also alone (`python -m forager.sandbox`). Never used against the outside: they listen on the loopback
address only.
"""

from forager.sandbox.apify import API_ACTOR, OLD_ACTOR, ApifyConfig, ApifySandbox, RunRule
from forager.sandbox.config import SerperConfig
from forager.sandbox.credentials import CredentialBackend
from forager.sandbox.faults import Fault, Rule, Trouble, When
from forager.sandbox.google import GoogleConfig, GoogleSandbox, GoogleWorld, Tenant
from forager.sandbox.journal import (
    Call,
    CallLog,
    LoggedRequest,
    RepeatedCall,
    RequestLog,
    read_calls,
    read_log,
    repeats,
)
from forager.sandbox.linked import LinkedConfig, LinkedSandbox
from forager.sandbox.listings import ListingsWorld, SimulatedListing
from forager.sandbox.model import ModelQuestion, SimulatedModel
from forager.sandbox.receiver import Mood, ReceivedRequest, WebhookReceiver
from forager.sandbox.scrape_pages import SiteAnswer
from forager.sandbox.server import SerperSandbox, serve
from forager.sandbox.shop import ShopConfig, ShopSandbox
from forager.sandbox.site import Outage, SandboxSite, SiteVisit, most_in_flight, most_starts
from forager.sandbox.unblocker import SimulatedUnblocker
from forager.sandbox.upstream import Upstream
from forager.sandbox.world import FULL_DENSITY, MIXED_DENSITY, Band, World

__all__ = [
    "API_ACTOR",
    "FULL_DENSITY",
    "MIXED_DENSITY",
    "OLD_ACTOR",
    "ApifyConfig",
    "ApifySandbox",
    "Band",
    "Call",
    "CallLog",
    "CredentialBackend",
    "Fault",
    "GoogleConfig",
    "GoogleSandbox",
    "GoogleWorld",
    "LinkedConfig",
    "LinkedSandbox",
    "ListingsWorld",
    "LoggedRequest",
    "ModelQuestion",
    "Mood",
    "Outage",
    "ReceivedRequest",
    "RepeatedCall",
    "RequestLog",
    "Rule",
    "RunRule",
    "SandboxSite",
    "SerperConfig",
    "SerperSandbox",
    "ShopConfig",
    "ShopSandbox",
    "SimulatedListing",
    "SimulatedModel",
    "SimulatedUnblocker",
    "SiteAnswer",
    "SiteVisit",
    "Tenant",
    "Trouble",
    "Upstream",
    "WebhookReceiver",
    "When",
    "World",
    "most_in_flight",
    "most_starts",
    "read_calls",
    "read_log",
    "repeats",
    "serve",
]
