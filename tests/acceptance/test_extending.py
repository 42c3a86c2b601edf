"""A pipeline of another package, with the code of docs/extending.md, discovered through its entry point.

Real processes and a real store. Nothing in `src/forager` refers to it, and everything works: settings, migration,
commands, routes, documentation, records, exports and webhooks.
"""

import json
import os
import sqlite3
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from tests.support.guide import files, install

pytestmark = pytest.mark.acceptance

PACKAGE = "forager_weather"
KEY = "q7Zr2-Wm9xL4vTn8KcB5hYs3DgJ6fPa1"
PATIENCE = 60.0
WORLD = {"/Lisbon": ("PT", 21.5), "/Porto": ("PT", 17.0), "/Oslo": ("NO", 4.0)}


class World:
    """The weather service and a webhook receiver, on one port."""

    def __init__(self) -> None:
        self.hooks: Queue[Any] = Queue()
        world = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                known = WORLD.get(self.path)
                body = json.dumps({"country": known[0], "celsius": known[1]} if known else {}).encode()
                self._answer(200 if known else 404, body)

            def do_POST(self) -> None:
                world.hooks.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self._answer(200, b"{}")

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"


class Machine:
    def __init__(self, folder: Path, world: World) -> None:
        self.folder = folder
        self.plain = {name: value for name, value in os.environ.items() if not name.startswith(("FORAGER_", "SERPER_"))}
        zips = folder / "zips.csv"
        zips.write_text("zip,state\n85001,AZ\n")  # the table that ships takes a second to load
        self.plain |= {"FORAGER_ZIP_TABLE": str(zips)}
        self.plain |= {"FORAGER_EGRESS_ALLOW": world.address, "FORAGER_SERVICE_KEY": KEY, "FORAGER_PORT": "0"}
        site = install(PACKAGE, folder / "site")
        path = os.pathsep.join([str(site), *filter(None, [self.plain.get("PYTHONPATH")])])
        self.extended = {
            **self.plain,
            "PYTHONPATH": path,
            "FORAGER_WEATHER_URL": f"http://{world.address}",
            "FORAGER_DEFAULT_WEBHOOK_URL": f"http://{world.address}/hook",
            "FORAGER_WEBHOOK_SECRET": "whk-5f0b1c2d3e4a5b6c",
        }

    def run(self, *arguments: str, env: Mapping[str, str] | None = None, home: str = "data") -> str:
        ended = subprocess.run(
            [sys.executable, "-m", "forager", "--home", home, *arguments],
            env=dict(env or self.extended),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    @contextmanager
    def up(self) -> Iterator[str]:
        """`forager up` until the block ends; gives its URL."""
        command = [sys.executable, "-m", "forager", "--home", "data", "up", "--json"]
        running = subprocess.Popen(command, env=self.extended, cwd=self.folder, stdout=subprocess.PIPE, text=True)
        try:
            assert running.stdout is not None
            yield next(said["url"] for line in running.stdout if "url" in (said := json.loads(line)))
        finally:
            running.terminate()
            running.communicate(timeout=PATIENCE)


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    threading.Thread(target=made.server.serve_forever, daemon=True).start()
    yield made
    made.server.shutdown()


@pytest.fixture
def machine(tmp_path: Path, world: World) -> Machine:
    return Machine(tmp_path, world)


def ask(url: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    sent = None if body is None else json.dumps(body).encode()
    headers = {"X-Service-Key": KEY, "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url + path, sent, headers), timeout=PATIENCE) as got:
        text = got.read().decode()
    return json.loads(text) if text.startswith("{") else text


def schema(ledger: Path) -> list[Any]:
    """Columns and indexes of the pipeline's table."""
    with sqlite3.connect(ledger) as db:
        columns = db.execute("SELECT name, upper(type), \"notnull\", pk FROM pragma_table_info('weather_cities')")
        indexes = db.execute("SELECT name, \"unique\" FROM pragma_index_list('weather_cities') ORDER BY name")
        return [*sorted(columns.fetchall()), *indexes.fetchall()]


def test_every_piece_of_the_page_is_short() -> None:
    pieces = {**files(PACKAGE), **files("my_package")}
    lengths = {path: len(code.splitlines()) for path, code in pieces.items()}
    assert len(lengths) >= 10
    assert max(lengths.values()) < 60, lengths


def test_its_commands_settings_table_and_export_need_no_edit_here(machine: Machine) -> None:
    assert "weather" not in machine.run("--help", env=machine.plain)
    machine.run("db", "upgrade", env=machine.plain)  # a store that was made without the package
    assert "The temperature in cities." in machine.run("--help")

    job = json.loads(machine.run("weather", "observe", "Lisbon", "Porto", "Oslo", "Atlantis", "--json"))
    assert (job["pipeline"], job["state"]) == ("weather", "completed")
    assert (job["completed"], job["skipped"], job["discoveries"]) == (3, 1, 3)
    warmest = {"name": "Lisbon", "country": "PT", "celsius": 21.5}
    assert json.loads(machine.run("weather", "warmest", "--json")) == warmest

    lines = [json.loads(line) for line in machine.run("export", "city", "--where", "country=PT").splitlines()]
    assert [(each["name"], each["celsius"]) for each in lines] == [("Lisbon", 21.5), ("Porto", 17.0)]

    machine.run("db", "upgrade", home="new")  # a store that is made with it
    assert schema(machine.folder / "data" / "ledger.db") == schema(machine.folder / "new" / "ledger.db")


def test_its_setting_is_checked_like_any_other(machine: Machine) -> None:
    wrong = {**machine.extended, "FORAGER_WEATHER_URL": "weather"}
    command = [sys.executable, "-m", "forager", "jobs", "list"]
    ended = subprocess.run(command, env=wrong, cwd=machine.folder, capture_output=True, text=True, check=False)
    assert ended.returncode != 0
    assert "FORAGER_WEATHER_URL: 'weather' in the environment cannot be used" in ended.stderr
    unknown = {**machine.plain, "FORAGER_WEATHER_URL": "https://weather.example"}
    ended = subprocess.run(command, env=unknown, cwd=machine.folder, capture_output=True, text=True, check=False)
    assert "is not a setting" in ended.stderr


def test_its_routes_documentation_records_and_webhook_need_no_edit_here(machine: Machine, world: World) -> None:
    with machine.up() as url:
        made = ask(url, "/api/v1/jobs", {"pipeline": "weather", "params": {"cities": ["Oslo", "Atlantis"]}})["data"]
        hook = world.hooks.get(timeout=PATIENCE)
        assert hook["job_id"] == made["id"]
        assert sorted(hook["results"], key=lambda each: str(each["city"])) == [
            {"city": "Atlantis", "status": "skipped", "reason": "unknown_city"},
            {"city": "Oslo", "status": "completed", "reason": None},
        ]
        assert ask(url, "/api/v1/weather/warmest")["data"] == {"name": "Oslo", "country": "NO", "celsius": 4.0}
        (city,) = ask(url, "/api/v1/records/city?country=NO")["data"]
        assert ask(url, "/api/v1/records/city/Oslo")["data"] == city
        (change,) = ask(url, "/api/v1/records/city/Oslo/history")["data"]
        assert (change["op"], change["job"]) == ("new", made["id"])
        document = ask(url, "/openapi.json")
        assert {"name": "weather", "description": "The temperature in cities."} in document["tags"]
        assert "WeatherJob" in document["components"]["schemas"]
        listing = document["paths"]["/api/v1/records/{kind}"]["get"]
        assert "`city`: `name`, `country`, `celsius`" in listing["description"]
        page = ask(url, "/docs")
        assert "Show the warmest city" in page
        assert "The temperature in cities." in page
