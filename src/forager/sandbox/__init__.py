"""Simulated upstreams: deterministic by seed, with the faults of the real ones, and a log that proves what was sent.

Serper's places API, Google Business Profile, Apify with a listings site, a shop, web sites to be polite to, a
receiver of webhooks, a backend that keeps log-ins. They start inside `demo` and tests; the APIs also alone
(`python -m forager.sandbox`). Never used against the outside: they listen on the loopback address only.
"""

from forager.sandbox.apify import API_ACTOR, OLD_ACTOR, ApifyConfig, ApifySandbox, RunRule
from forager.sandbox.calls import Call, CallLog, Repeat, read_calls, repeats
from forager.sandbox.config import SerperConfig
from forager.sandbox.credentials import CredentialBackend
from forager.sandbox.faults import Fault, Rule
from forager.sandbox.google import GoogleConfig, GoogleSandbox, GoogleWorld, Tenant
from forager.sandbox.listings import Listing, ListingsWorld
from forager.sandbox.log import Entry, RequestLog, read_log
from forager.sandbox.receiver import Mood, Received, WebhookReceiver
from forager.sandbox.server import SerperSandbox, serve
from forager.sandbox.shop import ShopConfig, ShopSandbox
from forager.sandbox.site import Outage, SandboxSite, Visit, most_in_flight, most_starts
from forager.sandbox.site_pages import Answer
from forager.sandbox.trouble import Trouble, When
from forager.sandbox.upstream import Upstream
from forager.sandbox.world import FULL_DENSITY, MIXED_DENSITY, Band, World

__all__ = [
    "API_ACTOR",
    "FULL_DENSITY",
    "MIXED_DENSITY",
    "OLD_ACTOR",
    "Answer",
    "ApifyConfig",
    "ApifySandbox",
    "Band",
    "Call",
    "CallLog",
    "CredentialBackend",
    "Entry",
    "Fault",
    "GoogleConfig",
    "GoogleSandbox",
    "GoogleWorld",
    "Listing",
    "ListingsWorld",
    "Mood",
    "Outage",
    "Received",
    "Repeat",
    "RequestLog",
    "Rule",
    "RunRule",
    "SandboxSite",
    "SerperConfig",
    "SerperSandbox",
    "ShopConfig",
    "ShopSandbox",
    "Tenant",
    "Trouble",
    "Upstream",
    "Visit",
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
