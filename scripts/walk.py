"""Show which files one task passes through: `make walk NAME=places` (or products, listings, scrape, reviews).

It runs the real command line in this process against a simulated upstream in another one, and records every function
of Forager that is entered from the submission of the job until the command has ended. Start-up and imports are left
out. Files are printed by room, in the order in which they are first entered, each with the function that is entered.
"""

import gzip
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

ROOT = Path(__file__).parents[1] / "src" / "forager"
BEGINS = (str(ROOT / "app" / "intake.py"), "submit")
"""The function with which a job enters the application. What runs before it is start-up."""
LEFT_OUT = ("sandbox",)


@dataclass(frozen=True, slots=True)
class Tour:
    """One command, the simulated upstream that it needs, and the settings that lead there."""

    upstream: Sequence[str]
    environment: Callable[[Mapping[str, Any]], Mapping[str, str]]
    command: Callable[[Mapping[str, Any], Path], Sequence[str]]


def _token(folder: Path) -> str:
    file = folder / "token"
    file.write_text("sandbox-walk")
    return str(file)


TOURS = {
    "places": Tour(
        (),
        lambda at: {"SERPER_API_KEY": "sandbox-key", "FORAGER_SERPER_BASE_URL": at["url"]},
        lambda at, folder: ("places", "run", "-k", "bars", "--zip", "85001", "--pages", "1"),
    ),
    "products": Tour(("shop", "--size", "20"), lambda at: {}, lambda at, folder: ("crawl", _product(at))),
    "scrape": Tour(
        ("shop", "--size", "20"), lambda at: {}, lambda at, folder: ("scrape", _product(at), "--as", "product")
    ),
    "listings": Tour(
        ("apify", "--size", "3"),
        lambda at: {"APIFY_TOKEN": "sandbox-walk", "FORAGER_APIFY_BASE_URL": at["url"]},
        lambda at, folder: ("markets", "scrape", "boston"),
    ),
    "reviews": Tour(
        ("google", "--size", "1"),
        lambda at: {
            f"FORAGER_GOOGLE_{name.upper()}_URL": at[f"{name}_url"] for name in ("accounts", "locations", "reviews")
        },
        lambda at, folder: ("reviews", "run", "--token-file", _token(folder)),
    ),
}


def main(name: str) -> int:
    """Take one tour and print it. Returns the exit code of the command."""
    if name not in TOURS:
        print(f"Unknown tour {name!r}. Choose one: {', '.join(TOURS)}", file=sys.stderr)
        return 2
    tour = TOURS[name]
    with tempfile.TemporaryDirectory() as folder, _upstream(tour.upstream) as announced:
        urls = [value for key, value in announced.items() if isinstance(value, str) and value.startswith("http")]
        allowed = ",".join(sorted({urlsplit(url).netloc for url in urls}))
        os.environ.update(tour.environment(announced), FORAGER_HOME=folder, FORAGER_EGRESS_ALLOW=allowed)
        walk = Walk()
        code = walk.during(lambda: _run([*tour.command(announced, Path(folder))]))
    walk.show(name)
    return code


class Walk:
    """The functions that were entered, by file, in the order of their first entry."""

    def __init__(self) -> None:
        self.entered: dict[str, str] = {}
        self._recording = False

    def during(self, command: Callable[[], int]) -> int:
        """Run the command with the profile hook in this thread and in every thread that it starts."""
        threading.setprofile(self._hook)
        sys.setprofile(self._hook)
        try:
            return command()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def show(self, name: str) -> None:
        """Print the files by room, and how many there are."""
        rooms: dict[str, list[str]] = {}
        for file, function in self.entered.items():
            inside = Path(file).relative_to(ROOT)
            room = inside.parts[0] if len(inside.parts) > 1 else "."
            rooms.setdefault(room, []).append(f"    {inside}  {function}")
        for room, lines in rooms.items():
            print(f"{room} ({len(lines)})", *lines, sep="\n")
        print(f"{name}: {len(self.entered)} files")

    def _hook(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        if not self._recording:
            self._recording = (code.co_filename, code.co_name) == BEGINS
        if not self._recording or code.co_name == "<module>" or not code.co_filename.startswith(f"{ROOT}/"):
            return
        if Path(code.co_filename).relative_to(ROOT).parts[0] not in LEFT_OUT:
            self.entered.setdefault(code.co_filename, code.co_qualname)


@contextmanager
def _upstream(arguments: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """Serve a simulated upstream in a process of its own. Yields the line in which it announces its addresses."""
    command = [sys.executable, "-m", "forager.sandbox", *arguments, "--until-stdin-closes"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()


def _product(at: Mapping[str, Any]) -> str:
    """Return the address of the shop's first product: the first address in the first sitemap."""
    sitemap = f"{at['url']}/sitemap.xml"
    while (found := _first_address(sitemap)).endswith((".xml", ".xml.gz")):
        sitemap = found
    return found


def _first_address(sitemap: str) -> str:
    with urlopen(sitemap) as answer:
        body = answer.read()
    text = (gzip.decompress(body) if sitemap.endswith(".gz") else body).decode()
    return text.partition("<loc>")[2].partition("</loc>")[0]


def _run(arguments: Sequence[str]) -> int:
    """Run the command. What it prints goes to standard error: standard output is for the walk."""
    from forager.cli.main import run

    with redirect_stdout(sys.stderr):
        return int(run(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
