"""The check of `forager doctor` of the files that settings name: the policy file and the proxies."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from forager.core.errors import Rejected
from forager.kit.cli.finding import Finding

if TYPE_CHECKING:
    from forager.settings import Settings

POLICIES = "SCRAPER_DOMAIN_POLICIES_PATH"


def check_files(settings: "Settings") -> Iterator[Finding]:
    """Yield a finding for the policy file if one is set, and for the proxies if the settings name some."""
    if settings.domain_policies_path is not None:
        yield _policies(settings)
    if settings.proxy_endpoints or settings.proxy_file is not None:
        yield _proxies(settings)


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
    return Finding("policy file", "ok", f"{path}, {len(found.domains):,} domains")


def _proxies(settings: "Settings") -> Finding:
    from forager.fetch.proxies import given_proxies

    try:
        found = given_proxies([each.get_secret_value() for each in settings.proxy_endpoints], settings.proxy_file)
    except Rejected as error:
        return Finding("proxies", "problem", error.message, "docs/proxies.md has the forms.")
    return Finding("proxies", "ok", f"{len(found):,} in the settings")
