"""Check what Forager promises about security, and write docs/security.md: `make security`.

Three parts: every test whose name ends with a security check (S1 to S23), with the number of hostile inputs that it
tried; the licences and known vulnerabilities of the dependencies; a search for secrets in the files that git tracks.
Exits with 1 if a check failed, a vulnerability is known, or a secret was found. Checks that could not run are listed.
"""

import json
import re
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from textwrap import wrap

import pytest

from scripts.chaos import why
from tests.support.attempts import PROPERTY

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "security.md"

CHECKS = {
    1: "Addresses that are not public, in every notation, at every place that takes a URL",
    2: "Every route and setting that takes a URL is covered by S1",
    3: "DNS rebinding, mixed answers, a resolver that fails",
    4: "file:, data:, ftp:, view-source:, chrome:, by HTTP and in the browser",
    5: "Compression bombs, endless and slow answers",
    6: "Hostile HTML, XML, JSON and text: pieces × contexts × readers",
    7: "Credentials never follow a redirect to another origin",
    8: "Secrets never appear in logs, metrics, answers, dead letters, exports",
    9: "A stolen database without its key; key rotation; ciphertext moved to another row",
    10: "Generated requests to the whole API",
    11: "Every route needs a key",
    12: "Keys, sessions and sign-in links",
    13: "Event streams: foreign origins, revoked keys, clients that read nothing",
    14: "Webhook signatures: tampering, age, replay, two secrets",
    15: "Pickle and YAML on a broker",
    16: "Texts that would like to run as script, in real Chromium",
    17: "Spreadsheet formulas in exports",
    18: "Paths in keys and file names",
    19: "SQL and search syntax in values",
    20: "Line breaks and control characters in logs and rows",
    21: "Stall of the event loop under hostile pages",
    22: "Dashboard: roles, write tokens, one-off links, content security policy",
    23: "Pages that instruct a model or an agent; hidden text; invented values",
}
_CHECK = re.compile(r"__S(\d+)")

SECRETS = {
    "private key": r"-----BEGIN (?:RSA |EC |OPENSSH |PGP )?PRIVATE KEY",
    "AWS access key": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "GitHub token": r"\bgh[pousr]_[0-9A-Za-z]{36}\b",
    "Slack token": r"\bxox[abprs]-[0-9A-Za-z-]{20,}",
    "Google API key": r"\bAIza[0-9A-Za-z_-]{35}\b",
    "Google OAuth token": r"\bya29\.[0-9A-Za-z_-]{30,}",
    "Stripe or model key": r"\bsk[-_](?:live_|proj-|ant-)?[0-9A-Za-z]{32,}\b",
    "Apify token": r"\bapify_api_[0-9A-Za-z]{30,}\b",
    "JSON web token": r"\beyJ[\w-]{20,}\.eyJ[\w-]{20,}\.[\w-]{20,}",
}
MADE_FOR_TESTS = ("tests/support/tls/",)
"""Folders whose keys were made for tests and protect nothing."""


@dataclass
class Row:
    """The result of one security check."""

    tests: int = 0
    tried: int = 0
    held: int = 0
    failed: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)


class Collector:
    """A pytest plug-in that keeps only the security tests and counts their results by check."""

    def __init__(self) -> None:
        self.rows = {number: Row() for number in CHECKS}

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        others = [item for item in items if not _CHECK.search(item.name)]
        if others:
            config.hook.pytest_deselected(items=others)
            items[:] = [item for item in items if _CHECK.search(item.name)]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        inputs = next((int(str(n)) for key, n in report.user_properties if key == PROPERTY), 1)
        name = report.nodeid.rpartition("/")[2]
        for number in {int(found) for found in _CHECK.findall(report.nodeid)} & self.rows.keys():
            row = self.rows[number]
            row.tests += 1
            row.tried += inputs
            if report.passed:
                row.held += inputs
            elif report.skipped:
                row.undecided.append(why(report))
            else:
                row.failed.append(f"`{name}`")


@dataclass(frozen=True)
class Dependency:
    name: str
    version: str
    licence: str
    audited: bool
    vulnerabilities: Sequence[str]


def dependencies() -> list[Dependency]:
    """Return the pinned dependencies with licence and known vulnerabilities, as far as the database can be reached."""
    pinned = [
        line.split(";")[0].strip().split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line and not line.startswith("#")
    ]
    known = _audit()
    return [
        Dependency(name, version, _licence(name), name.lower() in known, known.get(name.lower(), ()))
        for name, version in pinned
    ]


def _audit() -> dict[str, tuple[str, ...]]:
    """Run pip-audit in an environment of its own. Returns nothing if it or its database cannot be reached."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        install = [str(python), "-m", "pip", "install", "-q", "pip-audit"]
        made = subprocess.run(install, capture_output=True, check=False)
        if made.returncode:
            return {}
        pins = str(ROOT / "constraints.txt")
        command = [str(python), "-m", "pip_audit", "-r", pins, "--no-deps", "--disable-pip", "-f", "json"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    try:
        rows = json.loads(answer.stdout)["dependencies"]
    except (ValueError, KeyError):
        return {}
    return {
        row["name"].lower(): tuple(each["id"] for each in row.get("vulns", ()))
        for row in rows
        if "skip_reason" not in row
    }


def _licence(name: str) -> str:
    try:
        about = distribution(name).metadata.json
    except PackageNotFoundError:
        return "not installed here"
    classifiers = [str(each) for each in about.get("classifier", ())]
    named = str(about.get("license_expression", "")) or next(
        (each.rpartition(" :: ")[2] for each in classifiers if each.startswith("License ::")), ""
    )
    return named or (str(about.get("license", "")) or "not declared").splitlines()[0][:60]


def secrets() -> Iterator[str]:
    """Yield every place in a tracked file that looks like a secret, as `file:line: kind`."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in listed.decode().split("\0"):
        if not name or name.startswith(MADE_FOR_TESTS):
            continue
        text = (ROOT / name).read_bytes().decode("utf-8", "replace")
        for kind, pattern in SECRETS.items():
            for found in re.finditer(pattern, text):
                yield f"{name}:{text.count(chr(10), 0, found.start()) + 1}: {kind}"


def page(rows: dict[int, Row], packages: Sequence[Dependency], found: Sequence[str]) -> str:
    """Return docs/security.md."""
    vulnerable = [each for each in packages if each.vulnerabilities]
    unknown = [each for each in packages if not each.audited]
    licences: dict[str, list[str]] = {}
    for each in packages:
        licences.setdefault(each.licence, []).append(each.name)
    lines = [
        "# Security checks",
        "",
        "Written by `make security`. [SECURITY.md](../SECURITY.md) has the threat model, and how to report a flaw.",
        "",
        "An input is *refused* if the test that tried it passed: the attack had no effect.",
        "A test that could not run on this machine is *undecided*.",
        "",
        "| check | about | tests | inputs tried | refused | failed | undecided |",
        "|---|---|---|---|---|---|---|",
    ]
    for number, about in CHECKS.items():
        row = rows[number]
        cells = (row.tests, row.tried, row.held, len(row.failed), len(row.undecided))
        lines.append(f"| S{number} | {about} | " + " | ".join(f"{cell:,}" for cell in cells) + " |")
    for title, found_by in (
        ("Failed", {number: row.failed for number, row in rows.items()}),
        ("Undecided", {number: row.undecided for number, row in rows.items()}),
    ):
        checks: dict[str, list[str]] = {}
        for number, texts in found_by.items():
            for text in dict.fromkeys(texts):
                checks.setdefault(text, []).append(f"S{number}")
        if checks:
            lines += ["", f"{title}:", "", *(f"- {', '.join(each)}: {text}" for text, each in checks.items())]
    lines += ["", "## Dependencies", ""]
    lines += wrap(
        f"{len(packages)} pinned packages; {len(packages) - len(unknown)} were looked up in the vulnerability database"
        f" of pip-audit, {len(vulnerable)} of them have a known vulnerability.",
        120,
    )
    lines += ["", *(f"- {each.name} {each.version}: {', '.join(each.vulnerabilities)}" for each in vulnerable)]
    if unknown:
        listed = ", ".join(f"{each.name} {each.version}" for each in unknown)
        lines += ["", "Not looked up (the database had no entry or could not be reached):", "", *wrap(listed, 120)]
    lines += ["", "| licence | packages |", "|---|---|"]
    lines += [f"| {name} | {', '.join(sorted(each))} |" for name, each in sorted(licences.items())]
    lines += ["", "## Secrets in the source", ""]
    lines.append(f"Searched for {len(SECRETS)} kinds of keys in every tracked file: {len(found)} found.")
    lines += ["", *(f"- {each}" for each in found)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def main(options: Sequence[str]) -> int:
    collector = Collector()
    size = "not chaos and not servers" if "--full" not in options else "not servers"
    given = [option for option in options if option != "--full"]
    code = pytest.main(["-q", "-p", "tests.support.attempts", "-m", size, "tests", *given], plugins=[collector])
    packages, found = dependencies(), list(secrets())
    PAGE.write_text(page(collector.rows, packages, found), encoding="utf-8")
    rows = collector.rows.values()
    sys.stdout.write(
        f"{sum(row.tried for row in rows):,} inputs tried, {sum(row.held for row in rows):,} refused,"
        f" {sum(len(row.failed) for row in rows)} tests failed, {sum(len(row.undecided) for row in rows)} undecided;"
        f" {sum(bool(each.vulnerabilities) for each in packages)} vulnerable packages, {len(found)} secrets."
        f" Written: {PAGE.relative_to(ROOT)}\n"
    )
    return 1 if code or found or any(each.vulnerabilities for each in packages) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
