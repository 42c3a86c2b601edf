"""All access to the network: the egress guard and the fetchers behind it."""

from forager.fetch.addresses import is_public
from forager.fetch.guard import EgressGuard
from forager.fetch.http import HttpFetcher

__all__ = ["EgressGuard", "HttpFetcher", "is_public"]
