"""ClickHouse for tests: the real engine (`chdb`) behind a small HTTP front, in a process of its own on loopback.

`python -m tests.support.clickhouse PORT FOLDER` is that process. The front has what the sink uses of ClickHouse's HTTP
interface: `query`, `database`, `param_…` and settings in the query string, data or a statement in the body, the code of
an error in a header. Statements run one at a time.
"""

import atexit
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from tests.support.ports import free_ports

START_SECONDS = 120.0
NAMED = "clickhouse"
"""The file in a test's folder that names the server, for its processes."""
OURS = {"query", "database", "wait_end_of_query"}


class ClickHouse:
    """A server that ends with this process."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="forager-clickhouse-"))
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", __name__, str(port), str(self._folder / "data")]
        if setpriv := shutil.which("setpriv"):
            command = [setpriv, "--pdeathsig", "KILL", *command]
        root = Path(__file__).parents[2]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=root)
        atexit.register(self.close)
        self._wait()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _wait(self) -> None:
        give_up = time.monotonic() + START_SECONDS
        while time.monotonic() < give_up and self._process.poll() is None:
            try:
                urllib.request.urlopen(f"{self.url}/ping", timeout=30).close()
                return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"ClickHouse did not start: {(self._folder / 'log').read_text()[-2_000:]}")


@cache
def clickhouse() -> ClickHouse:
    """One for all tests of this process; each test has a database of its own."""
    return ClickHouse()


def url_of(folder: Path) -> str:
    """The server of a test: the one that its folder names, otherwise the one of this process."""
    named = folder / NAMED
    if not named.exists():
        named.write_text(clickhouse().url)
    return named.read_text()


def name_server(folder: Path) -> None:
    """Start the server here, so that it outlives the processes of a test."""
    url_of(folder)


def database_of(folder: Path) -> str:
    return f"t{hashlib.sha256(str(folder).encode()).hexdigest()[:10]}"


def rows_of(folder: Path, sql: str) -> list[dict[str, Any]]:
    """The rows of a query; none if its table or database is not there."""
    url = f"{url_of(folder)}/?database={quote(database_of(folder))}"
    request = urllib.request.Request(url, f"{sql} FORMAT JSONEachRow".encode(), method="POST")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return [json.loads(line) for line in answer.read().splitlines()]
    except urllib.error.HTTPError as error:
        if error.headers.get("X-ClickHouse-Exception-Code") in ("60", "81"):
            return []
        raise AssertionError(f"{sql}: {error.read().decode()[:500]}") from error


# ── the process ──


def serve(port: int, folder: str) -> None:
    session: Any = import_module("chdb.session")  # it has no types; loaded here alone, as it takes a second
    engine, one_at_a_time = session.Session(folder), threading.Lock()

    class Front(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(200, b"Ok.\n")

        def do_POST(self) -> None:
            asked = {name: values[-1] for name, values in parse_qs(urlsplit(self.path).query).items()}
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            query = asked["query"].encode() + b"\n" + body if "query" in asked else body
            try:
                self._answer(200, self._run(query.decode(), asked))
            except Exception as error:
                code = re.search(r"Code: (\d+)", str(error))
                self._answer(500, str(error).encode(), code[1] if code else "0")

        def _run(self, query: str, asked: dict[str, str]) -> bytes:
            values = {name[6:]: value for name, value in asked.items() if name.startswith("param_")}
            chosen = {n: v for n, v in asked.items() if n not in OURS and not n.startswith("param_")}
            with one_at_a_time:
                engine.query(f"USE `{asked.get('database', 'default')}`")
                for name, value in chosen.items():
                    engine.query(f"SET {name} = '{value}'")
                answer = engine.query(query, params=values) if values else engine.query(query)
                return bytes(answer.bytes() or b"")

        def _answer(self, status: int, content: bytes, code: str | None = None) -> None:
            self.send_response(status)
            if code is not None:
                self.send_header("X-ClickHouse-Exception-Code", code)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    ThreadingHTTPServer(("127.0.0.1", port), Front).serve_forever()


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2])
