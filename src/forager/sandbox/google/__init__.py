"""Google Business Profile, simulated: three APIs and the token endpoint, with their shapes, quotas and faults."""

from forager.sandbox.google.config import GoogleConfig, Tenant
from forager.sandbox.google.server import GoogleSandbox
from forager.sandbox.google.world import GoogleWorld, ReviewName

__all__ = ["GoogleConfig", "GoogleSandbox", "GoogleWorld", "ReviewName", "Tenant"]
