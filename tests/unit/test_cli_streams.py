"""Commands with unusual standard streams: an ASCII locale, or none at all. Files of ours are read as UTF-8, and what is
printed never breaks off."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

PRINTS = """
import sys
from forager.cli.main import main
from forager.kit.cli import render
sys.argv = ["forager", "--version"]
try:
    main()
finally:
    render.out().print("Caf\\xe9 \\u2026")
"""
ASCII = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def run(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **ASCII, "FORAGER_HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, *words], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_store_is_created_and_read_under_an_ascii_locale(tmp_path: Path) -> None:
    listed = run(tmp_path / "home", "-m", "forager", "jobs", "list", "--json")
    assert (listed.returncode, listed.stdout.strip()) == (0, "[]"), listed.stderr


def test_what_the_terminal_cannot_show_is_escaped(tmp_path: Path) -> None:
    shown = run(tmp_path / "home", "-c", PRINTS)
    assert (shown.returncode, shown.stdout.splitlines()[-1]) == (0, r"Caf\xe9 \u2026"), shown.stderr


def test_a_command_whose_output_is_closed_does_its_work(tmp_path: Path) -> None:
    script = f"exec {shlex.quote(sys.executable)} -m forager jobs list >&- <&-"
    ended = run(tmp_path / "home", "-c", f"import os; os.execvp('sh', ['sh', '-c', {script!r}])")
    assert (ended.returncode, ended.stderr.startswith("No jobs.")) == (0, True), ended.stderr
