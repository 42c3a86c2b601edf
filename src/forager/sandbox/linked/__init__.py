"""A site of many linked pages, with the traps that crawlers fall into."""

from forager.sandbox.linked.pages import LinkedConfig, LinkedPages
from forager.sandbox.linked.server import LinkedSandbox

__all__ = ["LinkedConfig", "LinkedPages", "LinkedSandbox"]
