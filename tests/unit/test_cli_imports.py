"""Commands answer at once because of what they do not import, or show what they are doing before they import it.

Wall-clock time proves little on a busy machine, so the libraries that take the time are named instead.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from forager.app.config import new_settings
from forager.app.features import FEATURES
from forager.cli.root import app
from scripts import cli_doc
from tests.support.schema_templates import prepare_store

FRAMEWORKS = (
    "fastapi",
    "starlette",
    "sqlalchemy",
    "aiohttp",
    "prometheus_client",
    "forager.app.compose",
    "forager.ledger.catalog",
)
"""Modules that serve the API and open the store."""
EXTRAS = (
    *("alembic", "asyncpg", "celery", "confluent_kafka", "cryptography", "google", "lxml", "playwright", "prefect"),
    *("phonenumbers", "psutil", "pyarrow", "trafilatura", "uvicorn", "zipcodes", "forager.sandbox"),
)
"""Modules that only one feature needs, when it works."""
READS = (
    *(f"{group} list" for group in ("jobs", "dead", "lanes", "schedules", "sinks", "proxies", "rechecks", "products")),
    *("markets list", "listings search"),
)
"""Commands that only send requests and print."""
CODE = """
import json, sys
from forager.cli.main import run
from forager.sdk.cli import render

shown = []
show = render.busy
render.busy = lambda what: shown.append([what, sorted(sys.modules)]) or show(what)
ended = [run(command.split()) for command in json.loads(sys.argv[1])]
print(json.dumps({"ended": ended, "shown": shown, "modules": sorted(sys.modules)}))
"""


class Empty(BaseHTTPRequestHandler):
    """An API that has nothing."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"success": true, "data": [], "error": null, "meta": {}}')

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def running() -> Iterator[str]:
    """The address of a Forager that is running."""
    with HTTPServer(("127.0.0.1", 0), Empty) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def called(folder: Path, *commands: str, **environment: str) -> dict[str, Any]:
    """Run commands in one fresh process: how they ended, what was imported, and what was shown meanwhile."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FORAGER_")}
    ran = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps(commands)],
        capture_output=True,
        text=True,
        check=False,
        env={**kept, **environment},
        cwd=folder,
    )
    assert ran.returncode == 0, ran.stderr
    printed, _, report = ran.stdout.rstrip().rpartition("\n")
    return {**json.loads(report), "out": printed, "err": ran.stderr}


def loaded(names: tuple[str, ...], modules: list[str]) -> list[str]:
    return sorted(set(names) & set(modules))


def test_help_lists_every_feature_and_loads_none_of_them(tmp_path: Path) -> None:
    """The help must come at once: no pydantic, no web framework, no database library, no pipeline."""
    ran = called(tmp_path, "--help")
    assert loaded((*FRAMEWORKS, *EXTRAS, "pydantic", "forager.pipelines.places.cli"), ran["modules"]) == []
    assert ran["err"] == ""
    assert all(feature.name in ran["out"] for feature in FEATURES if feature.commands)


def test_the_help_of_every_command_loads_neither_the_api_nor_the_store(tmp_path: Path) -> None:
    every = {name.partition(" ")[0]: f"{name} --help" for name, _ in cli_doc.commands(get_command(app))}
    ran = called(tmp_path, *every.values())  # one of each group: the commands of a group are loaded together
    assert set(ran["ended"]) == {0}
    assert loaded((*FRAMEWORKS, *EXTRAS), ran["modules"]) == []


def test_a_command_beside_a_running_forager_loads_neither_the_api_nor_the_store(tmp_path: Path, running: str) -> None:
    """It only sends requests and prints, so that it answers at once."""
    ran = called(tmp_path, *READS, FORAGER_API_URL=running)
    assert loaded((*FRAMEWORKS, *EXTRAS), ran["modules"]) == []
    assert set(ran["ended"]) == {0}, dict(zip(READS, ran["ended"], strict=True))
    assert ran["err"].startswith("No jobs. Create one: forager places run --keyword bars --state AZ\n")


MOST_BESIDE = 560
"""Modules of a command beside a running Forager: standard library, typer, rich, pydantic, the settings, and ours."""
MOST_OPENED = 1_420
"""Modules of a command that opens the store itself: the web framework, the database library and every pipeline more."""


def test_a_command_beside_a_running_forager_stays_within_its_import_budget(tmp_path: Path, running: str) -> None:
    """Each module costs a start. The settings of a feature are a module of their own, without its wiring."""
    ran = called(tmp_path, "jobs list", FORAGER_API_URL=running)
    ours = [name for name in ran["modules"] if name.startswith("forager.")]
    assert [name for name in ours if name.startswith("forager.extract") or name.endswith((".wiring", ".pipeline"))] == [
        "forager.core.pipeline"
    ] * ("forager.core.pipeline" in ours)
    assert len(ran["modules"]) <= MOST_BESIDE


def test_a_command_that_opens_the_store_loads_the_routes_of_its_own_pipeline_alone(tmp_path: Path) -> None:
    ran = called(tmp_path, "places run -k bars -s DE --dry-run")
    assert ran["ended"] == [0], ran["err"]
    others = ("products", "listings", "scrape", "reviews", "sites")
    assert "forager.pipelines.places.api" in ran["modules"]
    assert [name for name in others if f"forager.pipelines.{name}.api" in ran["modules"]] == []
    assert len(ran["modules"]) <= MOST_OPENED


def test_a_command_reports_that_it_opens_the_store_before_it_loads_large_modules(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    prepare_store(new_settings(home=tmp_path / "home"))
    ran = called(tmp_path, "lanes list", FORAGER_HOME=str(tmp_path / "home"))
    assert ran["ended"] == [0]
    ((what, modules),) = ran["shown"]
    assert what == "Opening the store …"
    assert loaded(FRAMEWORKS, modules) == []
    assert loaded(FRAMEWORKS, ran["modules"]) == sorted(FRAMEWORKS)  # the check sees what it is about
    assert loaded(EXTRAS, ran["modules"]) == []


MOST_AT_REST = 600
"""Modules of a command that reads the store without opening the application."""


@pytest.mark.parametrize("command", ["jobs list", "places plan -k bars -s DE"])
def test_a_command_that_reads_a_store_at_rest_loads_neither_the_api_nor_the_store(tmp_path: Path, command: str) -> None:
    """Half a second of CPU for a list of jobs, 0.8 for a plan: what is not imported takes no time."""
    (tmp_path / "home").mkdir()
    prepare_store(new_settings(home=tmp_path / "home"))
    ran = called(tmp_path, command, FORAGER_HOME=str(tmp_path / "home"))
    assert ran["ended"] == [0], ran["err"]
    assert ran["shown"] == []  # nothing that takes long enough to be shown
    assert loaded((*FRAMEWORKS, *EXTRAS), ran["modules"]) == []
    assert len(ran["modules"]) <= MOST_AT_REST


def test_a_plan_without_a_store_loads_no_framework_either_and_leaves_none(tmp_path: Path) -> None:
    ran = called(tmp_path, "places plan -k bars -s DE")
    assert ran["ended"] == [0], ran["err"]
    assert loaded((*FRAMEWORKS, *EXTRAS), ran["modules"]) == []
    assert list(tmp_path.iterdir()) == []
