"""The checks of `forager doctor` of settings that belong together or name a file: the policy file, the proxies, the
backend of log-ins."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from forager.core.errors import Rejected
from forager.kit.cli.finding import Finding
from forager.kit.cli.render import some

if TYPE_CHECKING:
    from forager.settings import Settings

POLICIES = "SCRAPER_DOMAIN_POLICIES_PATH"


def check_files(settings: "Settings") -> Iterator[Finding]:
    """Yield a finding for the policy file, the proxies and the backend of log-ins, each if the settings name it."""
    if settings.domain_policies_path is not None:
        yield _policies(settings)
    if settings.proxy_endpoints or settings.proxy_file is not None:
        yield _proxies(settings)
    if settings.backend_api_url is not None:
        yield _backend(settings.backend_api_url, has_key=settings.backend_service_key is not None)


def _policies(settings: "Settings") -> Finding:
    from forager.politeness.policy_file import parse_policies

    path, remedy = settings.domain_policies_path, f"Correct the file, or {POLICIES}; docs/politeness.md has an example."
    assert path is not None  # noqa: S101 - the caller has checked it
    try:
        found = parse_policies(path.read_text("utf-8"), path.name)
    except OSError as error:
        return Finding("policy file", "problem", f"{path} cannot be read: {error.strerror}", remedy)
    except UnicodeDecodeError:
        return Finding("policy file", "problem", f"{path} is not UTF-8 text", remedy)
    except Rejected as error:
        return Finding("policy file", "problem", error.message, remedy)
    return Finding("policy file", "ok", f"{path}, {some(len(found.domains), 'domain')}")


def _proxies(settings: "Settings") -> Finding:
    from forager.fetch.proxies import given_proxies

    try:
        found = given_proxies([each.get_secret_value() for each in settings.proxy_endpoints], settings.proxy_file)
    except Rejected as error:
        return Finding("proxies", "problem", error.message, "docs/proxies.md has the forms.")
    return Finding("proxies", "ok", f"{some(len(found), 'proxy', 'proxies')} in the settings")


def _backend(url: str, *, has_key: bool) -> Finding:
    from forager.fetch.credentials import safe_url

    remedy = "docs/credentials.md has an example."
    try:
        safe_url(url)
    except Rejected as error:
        return Finding("log-ins", "problem", error.message, remedy)
    if not has_key:
        return Finding("log-ins", "problem", "FORAGER_BACKEND_SERVICE_KEY is not set", f"Set it; {remedy}")
    return Finding("log-ins", "ok", f"asked for at {url}")
