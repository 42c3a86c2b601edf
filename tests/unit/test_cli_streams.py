"""Commands with unusual standard streams: an ASCII locale, or none at all. Files of ours are read as UTF-8, and what is
printed never breaks off."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

PRINTS = """
import sys
from forager.cli.main import main
from forager.sdk.cli import render
sys.argv = ["forager", "--version"]
try:
    main()
finally:
    render.out().print("Caf\\xe9 \\u2026")
"""
ASCII = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


WRITES = """
import asyncio, contextlib, sys
from forager.cli.main import main
from forager.cli.main import report
from forager.core.errors import Rejected
from forager.sdk.cli import render
from forager.sdk.cli.row_files import Format, write_pages

async def rows():
    yield [shop]

sys.argv = ["forager", "--version"]
with contextlib.suppress(SystemExit):
    main()
shop = {"name": SHOP}
for indent in (True, False):
    render.write("--")
    render.show_json(shop, indent=indent)
for form in (Format.JSONL, Format.CSV):
    render.write("--")
    asyncio.run(write_pages(rows(), form, None))
    sys.stdout.buffer.flush()
report(Rejected(shop["name"]), as_json=True, debug=False)
"""
SHOP = "Café 😀 „Ünï“"


def run(home: Path, *words: str, encoding: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **ASCII, "FORAGER_HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, *words],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding=encoding,
        timeout=120,
        check=False,
    )


def test_a_store_is_created_and_read_under_an_ascii_locale(tmp_path: Path) -> None:
    made = run(tmp_path / "home", "-m", "forager", "db", "upgrade")
    assert made.returncode == 0, made.stderr
    listed = run(tmp_path / "home", "-m", "forager", "jobs", "list", "--json")
    assert (listed.returncode, listed.stdout.strip()) == (0, "[]"), listed.stderr


def test_what_the_terminal_cannot_show_is_escaped(tmp_path: Path) -> None:
    shown = run(tmp_path / "home", "-c", PRINTS)
    assert (shown.returncode, shown.stdout.splitlines()[-1]) == (0, r"Caf\xe9 \u2026"), shown.stderr


def test_json_and_exports_are_valid_under_an_ascii_locale(tmp_path: Path) -> None:
    """JSON of a command is escaped as JSON; an export is a file in UTF-8, wherever it goes."""
    shown = run(tmp_path / "home", "-c", WRITES.replace("SHOP", ascii(SHOP)), encoding="utf-8")
    assert shown.returncode == 0, shown.stderr
    _, several, line, jsonl, csv = shown.stdout.split("--")
    error = shown.stderr
    for text in (several, line, error):
        assert text.isascii()
    assert json.loads(several) == json.loads(line) == json.loads(jsonl) == {"name": SHOP}
    assert csv.splitlines() == ["name", SHOP]
    assert SHOP in json.loads(error)["error"]["message"]


def test_a_command_whose_output_is_closed_does_its_work(tmp_path: Path) -> None:
    assert run(tmp_path / "home", "-m", "forager", "db", "upgrade").returncode == 0
    script = f"exec {shlex.quote(sys.executable)} -m forager jobs list >&- <&-"
    ended = run(tmp_path / "home", "-c", f"import os; os.execvp('sh', ['sh', '-c', {script!r}])")
    assert (ended.returncode, ended.stderr.startswith("No jobs.")) == (0, True), ended.stderr
