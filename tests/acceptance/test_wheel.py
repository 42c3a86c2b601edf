"""The wheel, installed into an empty environment as `pip install forager-data` would do it, without any extra.

The processes have no access to the checkout: no PYTHONPATH, an empty HOME, a folder of their own. Code that works in
the checkout only because of a file next to it fails here.
"""

import csv
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
import urllib.request
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from forager.ledger.sqlite.lock import read_owner
from forager.secrets.service_key import read_service_key
from tests.acceptance.test_cli import until

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PATIENCE = 300.0
ARTICLE = b"""<!doctype html><html lang="en"><head><title>Rain in Lisbon</title></head>
<body><nav><a href="/">Home</a></nav>
<main><article><h1>Rain in Lisbon</h1><p>It rained for three days, and the river rose by a metre and a half.</p>
<table><tr><th>day</th><th>mm</th></tr><tr><td>Monday</td><td>31</td></tr></table></article></main></body></html>"""


@dataclass
class Installed:
    """The wheel, and the environment with nothing but it and what it requires."""

    wheel: Path
    program: Path
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
        return {**kept, "HOME": str(self.folder), "PATH": "/usr/bin:/bin", "COLUMNS": "200", "FORAGER_PORT": "0"}

    def run(self, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [self.program, *arguments],
            cwd=self.folder,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("wheel")
    wheel = build_wheel(folder / "dist")
    python = make_environment(folder / "env")
    install(python, wheel)
    (folder / "empty").mkdir()
    return Installed(wheel, python.with_name("forager"), folder / "empty")


@pytest.fixture(scope="module")
def demo(installed: Installed) -> "subprocess.CompletedProcess[str]":
    """The whole demo: it passes through every pipeline, and leaves data for the other tests."""
    return installed.run("demo")


@pytest.fixture
def article() -> Iterator[str]:
    """The address of a page on loopback."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path == "/rain"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(ARTICLE if found else b"")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/rain"
        server.shutdown()


def test_the_wheel_has_every_file_of_the_package_and_no_other(installed: Installed) -> None:
    with zipfile.ZipFile(installed.wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
        about = {name.partition(".dist-info/")[2] for name in archive.namelist()} - {""}
    source = {
        path.relative_to(SOURCE).as_posix()
        for path in (SOURCE / "forager").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert packed == source
    assert {"forager/dashboard/index.html", "forager/ledger/views.sql", "forager/extract/data/cities.txt.gz"} <= packed
    assert {"METADATA", "entry_points.txt", "licenses/LICENSE", "licenses/NOTICE"} <= about


def test_an_installed_wheel_runs_the_demo(demo: "subprocess.CompletedProcess[str]", installed: Installed) -> None:
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert "Survived kill -9" in demo.stdout
    assert (installed.folder / ".forager" / "demo" / "all" / "report.html").stat().st_size > 10_000


@pytest.mark.usefixtures("demo")
def test_an_installed_wheel_exports_records_and_names_the_extra_of_a_format_that_needs_one(
    installed: Installed,
) -> None:
    home = ("--home", ".forager/demo/all")

    exported = installed.run(*home, "export", "place", "-o", "places.csv")
    lines = installed.run(*home, "export", "listing", "-o", "listings.jsonl")
    refused = installed.run(*home, "export", "place", "-o", "places.xlsx")

    assert exported.returncode == 0, exported.stderr
    with (installed.folder / "places.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) > 1_000
    assert lines.returncode == 0, lines.stderr
    assert json.loads((installed.folder / "listings.jsonl").read_text().splitlines()[0])
    assert refused.returncode != 0
    assert "pip install 'forager-data[excel]'" in refused.stderr


def test_doctor_names_every_extra_that_is_missing_with_its_command(installed: Installed) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    said = "".join(installed.run("doctor").stdout.split())

    commands = re.findall(r"forager-data\[([\w,]+)\]", said)
    assert {name for names in commands for name in names.split(",")} == extras.keys()


def test_an_installed_wheel_scrapes_a_page_as_markdown(installed: Installed, article: str) -> None:
    allow = article.removeprefix("http://").partition("/")[0]

    ran = installed.run("scrape", article, "--as", "markdown", FORAGER_EGRESS_ALLOW=allow)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "# Rain in Lisbon" in ran.stdout
    assert re.search(r"\| *Monday *\| *31 *\|", ran.stdout)


@pytest.mark.usefixtures("demo")
def test_an_installed_wheel_serves_the_dashboard_with_all_its_files(installed: Installed) -> None:
    home = installed.folder / ".forager" / "demo" / "all"
    with (installed.folder / "up.out").open("w") as out:
        process = subprocess.Popen(
            [installed.program, "--home", str(home), "up"],
            cwd=installed.folder,
            env=installed.environment,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        said = (installed.folder / "up.out").read_text
        owner = until(lambda: (found := read_owner(home / "lock")) and found.url and found, said)
        page = get(owner.url, "/", accept="text/html")
        assert "<script" in page
        for path in dashboard_paths():
            get(owner.url, path)
        document = json.loads(get(owner.url, "/openapi.json", key=read_service_key(home) or ""))
        assert len(document["paths"]) > 50
        jobs = json.loads(get(owner.url, "/api/v1/jobs", key=read_service_key(home) or ""))
        assert jobs
    finally:
        process.terminate()
        process.wait(PATIENCE)


def dashboard_paths() -> list[str]:
    """The addresses of every file that a browser loads: of the dashboard, and of the pages of pipelines."""
    package = SOURCE / "forager"
    shared = package / "dashboard"
    files = [path for suffix in ("*.js", "*.css") for path in shared.rglob(suffix)]
    own = [f"/dashboard/{path.relative_to(shared).as_posix()}" for path in files]
    pages = [
        f"/dashboard/features/{folder.parent.name}/{path.name}"
        for folder in sorted(package.glob("pipelines/*/page"))
        for path in folder.glob("*.js")
    ]
    assert own
    assert pages
    return [*own, *pages]


def get(base: str, path: str, *, accept: str = "*/*", key: str = "") -> str:
    """The text of an answer with status 200; any other raises."""
    request = urllib.request.Request(base + path, headers={"Accept": accept, "X-Service-Key": key})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return str(answer.read().decode())


def build_wheel(folder: Path) -> Path:
    uv = find_uv()
    if uv:
        build = [uv, "build", "--quiet", "--wheel", "--python", sys.executable]
        checked([*build, "--build-constraints", str(ROOT / "constraints.txt"), "--out-dir", str(folder), str(ROOT)])
    else:
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
        checked([*pip, "--wheel-dir", str(folder), str(ROOT)])
    (wheel,) = folder.glob("*.whl")
    return wheel


def make_environment(folder: Path) -> Path:
    """A Python of its own. Only pip needs pip in it."""
    checked([sys.executable, "-m", "venv", *(["--without-pip"] if find_uv() else []), str(folder)])
    return folder / "bin" / "python"


def install(python: Path, wheel: Path) -> None:
    """Install from the package index that this machine uses, in the versions of the project."""
    uv = find_uv()
    if uv:
        command = [uv, "pip", "install", "--quiet", "--python", str(python)]
    else:
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    checked([*command, "--constraint", str(ROOT / "constraints.txt"), str(wheel)])


def find_uv() -> str | None:
    """uv takes seconds where pip takes half a minute."""
    return shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))


def checked(command: list[str]) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ran.returncode == 0, f"{' '.join(command)}\n{ran.stdout}{ran.stderr}"
