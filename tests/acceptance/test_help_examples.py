"""The help of every command ends with an example, and every example works: it is run as it is printed, on the data of
`forager demo --stay`. Names of hosts, ids and files in it stand for those of the demo.
"""

import contextlib
import io
import json
import os
import shlex
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

import httpx
import pytest
from typer.main import get_command

from forager.app.config import new_settings
from forager.cli.main import run
from forager.cli.root import app
from forager.ledger.sqlite.lock import read_owner
from forager.pipelines.reviews.demo import TOKEN
from forager.sdk.cli.invocation import ExitCode
from scripts import cli_doc
from tests.acceptance.test_cli import Machine, until
from tests.support.cli import Ran
from tests.support.schema_templates import prepare_store

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
EXAMPLES = {path: cli_doc.example(command) for path, command in cli_doc.commands(get_command(app))}
SERVICES = {"demo", "up", "worker", "sandbox", "mcp"}
"""Commands that stay. Their tests start them: test_cli.py, test_wheel.py, tests/contract/mcp."""
ELSEWHERE = {
    "reviews login": "tests/contract/reviews/test_reviews_logins.py",
    "replay": "tests/contract/test_replay.py",
    "web": "tests/unit/test_cli_web.py",
    "proxies check": "tests/unit/test_cli_proxies.py",
    "channels test": "tests/contract/alerts/test_watch_to_alert.py",
    "blobs adopt": "tests/contract/test_blobs_s3.py",
    "restore": "tests/acceptance/test_restore.py",
}
"""Commands that need a second party or a store of their own, with the test that runs each."""
NOTHING_THERE = {
    *("products quarantine accept", "products quarantine reject", "products wrappers show"),
    *(
        "products wrappers adopt",
        "products wrappers reject",
        "reviews logout",
        "sinks discard",
        "listings split",
        "sessions remove",
    ),
}
"""What they name is not in the demo's data: a healthy shop has no values held back. They end with "not found"."""
NEEDS_POSTGRES = {"regions pin", "regions unpin"}
"""On an embedded store these are refused with the remedy."""
AT_REST = {"db current", "db upgrade", "db downgrade", "db compact", "db rotate-key"}
"""Commands that need the store for themselves."""
CHANGING = {"jobs pause", "jobs resume", "jobs cancel", "jobs retry"}
FIRST = ("doctor", "schemas add", "channels add", "rules add", "watch add", "sinks add", "schedules add", "keys add")
LAST = ("rules remove", "channels remove", "schemas remove", "watch remove", "sinks remove", "schedules remove")


class Demo:
    """A running demo with its data."""

    def __init__(self, machine: Machine, home: Path, api: httpx.Client) -> None:
        self.machine = machine
        self.home = home
        self.api = api
        read = self.get("/records/scrape_result", limit=3)
        page = read[0]["target_url"]
        self.product = self.get("/products", limit=1)[0]
        shop, site = (urlsplit(each).netloc for each in (self.product["url"], page))
        self.names = {
            "https://shop.example/product/1": self.product["url"],
            "https://shop.example/": f"http://{shop}/",
            "shop.example": shop,
            "https://docs.example/": page,
            "docs.example": site,
            "https://hooks.example": f"http://{shop}",
            "ntfy.example": shop,
            "/guide/*": "/jobs/*",
        }
        folder = machine.folder
        (folder / "urls.csv").write_text(f"url\n{page}\n")
        (folder / "price.json").write_text('{"fields": {"heading": {"css": "h1"}}}')
        (folder / "token.txt").write_text(TOKEN)
        examples = [{"url": each["target_url"], "values": {"title": each["result"]["job_title"]}} for each in read]
        (folder / "examples.json").write_text(json.dumps(examples))

    def get(self, path: str, **query: Any) -> Any:
        answer = self.api.get(f"/api/v1{path}", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def job(self, pipeline: str) -> str:
        """Return the oldest job of a pipeline: it has ended."""
        return str(self.get("/jobs", pipeline=pipeline, limit=1000)[-1]["id"])

    def new_job(self) -> str:
        """Create a job that continues for some seconds."""
        body = {"keyword": "cafes", "state": "TX", "pages": 1}
        return str(self.api.post("/api/v1/places/jobs", json=body).json()["data"]["job_id"])

    def dead_task(self) -> str:
        """Return a task that has failed permanently."""
        if not (dead := self.get("/dead", limit=1)):
            gone = self.names["https://docs.example/"] + "/nowhere"
            self.run("scrape", gone, "--http")
            dead = self.get("/dead", limit=1)
        return str(dead[0]["id"])

    def dead_job(self) -> str:
        self.dead_task()
        return str(self.get("/dead", limit=1)[0]["job"])

    def key(self, kind: str) -> str:
        """Return the key of a record, as a list shows it: the value that `forager … show` takes."""
        record = self.get(f"/records/{kind}", limit=1)[0]
        return str(next(value for name, value in record.items() if name.endswith(("_uid", "_key")) or name == "key"))

    def words(self, path: str, example: str) -> list[str]:
        """Return an example as it can be run here: what it names is replaced by what the demo has."""
        words = shlex.split(example)[1:]
        for name, value in self.names.items():
            words = [word.replace(name, value) for word in words]
        group = path.partition(" ")[0]
        if path in ("jobs pause", "jobs resume", "jobs cancel", "jobs retry"):
            stands = self.new_job()
            if path == "jobs resume":
                self.run("jobs", "pause", stands)
            if path == "jobs retry":
                stands = self.dead_job()
        known: dict[str, Callable[[], str]] = {
            "<job>": lambda: stands if path in CHANGING else self.job(group if group != "jobs" else "places"),
            "<task>": self.dead_task,
            "<page>": lambda: str(self.get("/pages", limit=1)[0]["id"]),
            "<wrapper>": lambda: "shop.example/1",
            "<revision>": lambda: "base",
        }
        for kind in ("place", "product", "listing", "review", "scrape_result"):
            known[f"<{kind}>"] = partial(self.key, kind)
        words = [known[word]() if word in known else word for word in words]
        if group == "products" and words[-1] == "17":
            words[-1] = str(self.product["id"])
        if group == "listings" and "17" in words:
            listing = str(self.get("/listings", limit=1)[0]["id"])
            source = self.get(f"/listings/{listing}/why")[-1]["source_key"]
            words = [{"17": listing, "23": source}.get(word, word) for word in words]
        return words

    def run(self, *words: str, home: Path | None = None) -> Ran:
        """Run a command in this process, which has imported everything already."""
        environment = self.machine.environment | {"FORAGER_HOME": str(home or self.home)}
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        with (
            mock.patch.dict(os.environ, environment, clear=True),
            mock.patch("sys.stdin", io.StringIO("y\n")),
            contextlib.chdir(self.machine.folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = run(list(words))
        return Ran(code, *(each.buffer.getvalue().decode() for each in (out, err)))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    machine = Machine(tmp_path_factory.mktemp("demo"), tmp_path_factory.getbasetemp() / "bytecode")
    home = machine.home / "demo" / "all"
    with machine.started("demo", "--stay"):
        until(lambda: "Stays up" in machine.said, lambda: machine.said)
        owner = until(lambda: (found := read_owner(home / "lock")) and found.url and found, lambda: machine.said)
        key = {"X-Service-Key": (home / "service.key").read_text().strip()}
        with httpx.Client(base_url=str(owner.url), headers=key, timeout=60) as api:
            yield Demo(machine, home, api)


def in_order(path: str) -> tuple[int, int]:
    """Sort what adds a thing first, and what removes it last, both in the order of their dependence."""
    if path in FIRST:
        return 0, FIRST.index(path)
    return (2, LAST.index(path)) if path in LAST else (1, 0)


def test_every_example_of_the_help_works_on_the_data_of_the_demo(demo: Demo) -> None:
    """With `--stay`, the demo keeps its upstreams and its Forager running; commands find it by its data folder."""
    failed = []
    for path in sorted(EXAMPLES, key=in_order):
        if path in SERVICES or path in ELSEWHERE or path in AT_REST:
            continue
        words = demo.words(path, str(EXAMPLES[path]))
        ran = demo.run(*words)
        expected = ExitCode.NOT_FOUND if path in NOTHING_THERE else ExitCode.OK
        if path in NEEDS_POSTGRES:
            expected = ExitCode.USAGE
        if ran.code != expected:
            failed.append(f"{path}: forager {shlex.join(words)}: {ran.code}: {ran.all[-500:]}")
    assert failed == [], "\n".join(failed)


def test_every_example_that_needs_the_store_for_itself_works(tmp_path: Path, demo: Demo) -> None:
    prepare_store(new_settings(home=tmp_path))
    failed = []
    for path in (*sorted(AT_REST - {"db downgrade"}), "db downgrade"):
        ran = demo.run(*demo.words(path, str(EXAMPLES[path])), home=tmp_path)
        if ran.code != 0:
            failed.append(f"{path}: {ran.all}")
    assert failed == []


def test_every_other_command_is_run_by_the_test_that_is_named_for_it() -> None:
    for path, file in ELSEWHERE.items():
        text = (ROOT / file).read_text()
        assert all(word in text for word in path.split()[-1:]), path
