"""Checks a release before it is published: `make release-check`. Builds the wheel and the sdist into dist/, looks into
both, and ends with exit code 1 and one line for each problem.

On a commit with a tag, the version must be that of the tag and the changelog must have a section for it. Elsewhere it
checks what the next release would be.
"""

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from email.message import Message
from email.parser import Parser
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
LICENCES = DIST / "LICENSES.txt"
NEEDED = (
    *("forager/py.typed", "forager/mcp/SKILL.md", "forager/dashboard/index.html", "forager/ledger/migrations/env.py"),
    *(
        "forager/pipelines/places/views.sql",
        "forager/pipelines/places/page/main.js",
        "forager/pipelines/places/zips.json.zst",
    ),
)
"""Files without which an installed wheel would not work: code alone is not enough."""
IN_SDIST = ("src/forager/__init__.py", "tests/conftest.py", "Makefile", "constraints.txt", "LICENSE", "CHANGELOG.md")
MOST_BYTES = 20 * 1024 * 1024
PERMITTED = re.compile(
    r"\b(MIT|MIT-0|BSD|ISC|Apache|PSF|Python Software Foundation|MPL|Mozilla Public|Unlicense|CNRI|AFL|LGPL|Zlib|0BSD)"
)
"""Licences under which a dependency may be distributed beside Apache-2.0. LGPL and MPL: used as separate packages."""
KNOWN = {"text-unidecode": "Artistic-1.0 OR GPL-2.0-or-later: used under the Artistic License"}
"""Packages whose own licence text needs a person to read it: what was found."""


def main() -> int:
    tag = tag_of_commit()
    shutil.rmtree(DIST, ignore_errors=True)
    wheel, sdist = build()
    found = [
        *check_wheel(wheel),
        *check_sdist(sdist),
        *check_version(version_of(wheel), tag, (ROOT / "CHANGELOG.md").read_text("utf-8")),
    ]
    lines, problems = licences("forager-data")
    LICENCES.write_text("\n".join(lines) + "\n", "utf-8")
    found += problems
    for problem in found:
        print(f"release-check: {problem}", file=sys.stderr)
    if not found:
        print(
            f"release-check: {wheel.name}, {sdist.name}: {len(lines)} licences in {LICENCES.relative_to(ROOT)}. Ready."
        )
    return 1 if found else 0


def build() -> tuple[Path, Path]:
    """Build both distributions as a release does."""
    subprocess.run([ROOT / "scripts" / "setup", "wheel", "--sdist"], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    return wheel, sdist


def tag_of_commit() -> str | None:
    """Return the version tag of this commit, or None."""
    told = subprocess.run(
        ["git", "describe", "--tags", "--exact-match", "--match", "v*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return told.stdout.strip() or None


def version_of(wheel: Path) -> str:
    return wheel.name.split("-")[1]


def check_version(version: str, tag: str | None, changelog: str) -> Iterator[str]:
    """Yield what is wrong with the version: not that of the tag, or not in the changelog."""
    headings = re.findall(r"^## \[([^\]]+)\](.*)$", changelog, re.MULTILINE)
    names = [name for name, _ in headings]
    if tag is None:
        if "Unreleased" not in names:
            yield "CHANGELOG.md has no section [Unreleased]"
        return
    wanted = tag.removeprefix("v")
    if Version(version) != Version(wanted):
        yield f"the wheel's version is {version}, and the tag is {tag}"
    if wanted not in names:
        yield f"CHANGELOG.md has no section [{wanted}]: rename [Unreleased] and add the date"
    elif not re.search(r"\d{4}-\d{2}-\d{2}", dict(headings)[wanted]):
        yield f"CHANGELOG.md: the section [{wanted}] has no date"


def check_wheel(wheel: Path) -> Iterator[str]:
    """Yield what is missing in the wheel, or too much."""
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        (meta,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(packed.read(meta).decode())
        entries = packed.read(meta.replace("METADATA", "entry_points.txt")).decode()
    yield from (f"the wheel lacks {name}" for name in NEEDED if name not in names)
    foreign = sorted({name.partition("/")[0] for name in names} - {"forager", meta.partition("/")[0]})
    yield from (f"the wheel has a foreign package {name}" for name in foreign)
    yield from (f"the wheel has {name}" for name in names if "__pycache__" in name or "/tests/" in name)
    if wheel.stat().st_size > MOST_BYTES:
        yield f"the wheel has {wheel.stat().st_size:,} bytes, more than {MOST_BYTES:,}"
    if "forager = forager.__main__:main" not in entries:
        yield "the wheel has no command `forager`"
    if not any(name.endswith("/licenses/LICENSE") for name in names):
        yield "the wheel lacks LICENSE"
    yield from check_metadata(metadata)


def check_metadata(metadata: Message) -> Iterator[str]:
    """Yield what an index would refuse, or show badly."""
    for field in ("Name", "Version", "Summary", "Requires-Python", "License-Expression", "Description-Content-Type"):
        if not metadata.get(field):
            yield f"the metadata lack {field}"
    if metadata.get("Description-Content-Type", "").split(";")[0] != "text/markdown":
        yield "the description is not Markdown"
    if len(str(metadata.get("Summary", ""))) > 512:
        yield "the summary is longer than 512 characters"
    for requirement in metadata.get_all("Requires-Dist") or []:
        if Requirement(requirement).url:
            yield f"an index refuses requirements by address: {requirement}"


def check_sdist(sdist: Path) -> Iterator[str]:
    """Yield what is missing in the sdist, and what does not belong to it."""
    with tarfile.open(sdist) as packed:
        names = [name.partition("/")[2] for name in packed.getnames()]
    yield from (f"the sdist lacks {name}" for name in IN_SDIST if name not in names)
    yield from (f"the sdist has {name}" for name in names if name.startswith((".venv", ".forager", ".git/")))


def licences(root: str) -> tuple[list[str], list[str]]:
    """Return a line for every distribution that an installation with all extras has, and problems with licences."""
    lines, problems = [], []
    for found in sorted(installed(root), key=lambda each: each.name.lower()):
        licence = KNOWN.get(found.name) or licence_of(found)
        lines.append(f"{found.name} {found.version}: {licence or 'unknown'}")
        if found.name not in KNOWN and not PERMITTED.search(licence):
            problems.append(f"the licence of {found.name} is {licence or 'unknown'}: read it, then add it to KNOWN")
    return lines, problems


def licence_of(found: Distribution) -> str:
    """Return the licence as the distribution's metadata give it: an expression, a short text, or classifiers."""
    about: Any = found.metadata  # a Message, whose protocol leaves `get` out
    given = about.get("License-Expression") or (about.get("License") or "").partition("\n")[0]
    classified = [
        each.rpartition(" :: ")[2] for each in about.get_all("Classifier") or () if each.startswith("License :: ")
    ]
    return given if PERMITTED.search(given) and len(given) < 80 else ", ".join(classified) or given[:80]


def installed(root: str) -> Iterable[Distribution]:
    """Return the distributions that one requires, with all of its extras, as far as they are installed here."""
    seen: dict[str, Distribution] = {}
    waiting: list[tuple[str, Sequence[str]]] = [(root, distribution(root).metadata.get_all("Provides-Extra") or ())]
    while waiting:
        name, extras = waiting.pop()
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue  # for another platform
        if found.metadata["Name"].lower().replace("_", "-") in seen:
            continue
        seen[found.metadata["Name"].lower().replace("_", "-")] = found
        for text in found.requires or ():
            required = Requirement(text)
            if required.marker is None or any(required.marker.evaluate({"extra": each}) for each in (*extras, "")):
                waiting.append((required.name, tuple(required.extras)))
    return [found for name, found in seen.items() if name != root]


if __name__ == "__main__":
    sys.exit(main())
