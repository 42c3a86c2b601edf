"""The sink on docs/extending.md, as another package brings it: discovered by its entry point, set by its setting."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.docs_code import code_on

ENTRY_POINT = "[forager.sinks]\nmirror = mirror_sink:sink\n"


def install(folder: Path) -> None:
    """Put on the path what installing the package would put there."""
    (folder / "mirror_sink.py").write_text(code_on("extending.md", "class MirrorSink"))
    about = folder / "mirror_sink-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mirror-sink\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINT)


def run(folder: Path, *words: str, **env: str) -> Any:
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    ran = subprocess.run(
        [sys.executable, "-m", "forager", "sinks", *words, "--json"],
        env={**os.environ, "PYTHONPATH": path, "FORAGER_HOME": str(folder / "home"), **env},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return json.loads(ran.stdout) if ran.returncode == 0 else ran.stderr


def test_the_sink_on_the_page_is_discovered_by_its_entry_point_and_a_row_makes_one(tmp_path: Path) -> None:
    install(tmp_path)
    add = ("add", "things", "--type", "mirror", "--kind", "product")
    assert "FORAGER_MIRROR_FOLDER" in run(tmp_path, *add)
    added = run(tmp_path, *add, FORAGER_MIRROR_FOLDER=str(tmp_path))
    assert (added["type"], added["kinds"], added["origin"], added["configured"]) == ("mirror", ["product"], "row", True)
    listed = {each["name"]: each for each in run(tmp_path, "list")}
    assert set(listed) == {"things", "search", "webhook"}
    assert "FORAGER_MIRROR_FOLDER" in listed["things"]["problem"], "the setting is gone, the row is not"


def test_the_page_keeps_its_promise_of_few_lines() -> None:
    lines = [line for line in code_on("extending.md", "class MirrorSink").splitlines() if line.strip()]
    assert len(lines) < 60
