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
    """What installing the package would put on the path."""
    (folder / "mirror_sink.py").write_text(code_on("extending.md", "class MirrorSink"))
    about = folder / "mirror_sink-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mirror-sink\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINT)


def sinks(folder: Path, **env: str) -> list[dict[str, Any]]:
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    ran = subprocess.run(
        [sys.executable, "-m", "forager", "sinks", "list", "--json"],
        env={**os.environ, "PYTHONPATH": path, "FORAGER_HOME": str(folder / "home"), **env},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    listed: list[dict[str, Any]] = json.loads(ran.stdout)
    return listed


def test_the_sink_on_the_page_is_discovered_by_its_entry_point_and_turned_on_by_its_setting(tmp_path: Path) -> None:
    install(tmp_path)
    assert [each["name"] for each in sinks(tmp_path)] == ["search", "webhook"]
    listed = sinks(tmp_path, FORAGER_MIRROR_FILE=str(tmp_path / "mirror.db"))
    assert [(each["name"], each["configured"]) for each in listed] == [
        ("mirror", True),
        ("search", True),
        ("webhook", True),
    ]


def test_the_page_keeps_its_promise_of_few_lines() -> None:
    lines = [line for line in code_on("extending.md", "class MirrorSink").splitlines() if line.strip()]
    assert len(lines) < 60
