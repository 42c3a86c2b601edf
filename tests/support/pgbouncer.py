"""A real PgBouncer in transaction mode before a PostgreSQL of the tests, on loopback.

Servers take turns, so that two transactions of one client meet different ones: what one leaves behind on a connection
is missing in the next. `python -m tests.support.pgbouncer` ends with 1 if it cannot be started here.
"""

import contextlib
import os
import pwd
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from tests.support.brokers import killed, started
from tests.support.ports import free_ports

EVERYWHERE = "FORAGER_TEST_PGBOUNCER"
"""Set to 1, every ledger that a contract test opens in its own process is behind PgBouncer."""

_CONFIGURATION = """
[databases]
* = host=127.0.0.1 port={server} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
server_round_robin = 1
max_client_conn = 1000
default_pool_size = 30
server_idle_timeout = 5
server_login_retry = 0
"""


class PgBouncerMissing(Exception):
    """The program is not installed."""


class PgBouncer:
    """Use as a context manager. It also ends when the process that started it dies."""

    def __init__(self, server_url: str) -> None:
        """`server_url` names any database of the server, which lets everybody in from loopback."""
        self._program = find_pgbouncer()
        self._server = urlsplit(server_url).port
        self._user = urlsplit(server_url).username
        (self._port,) = free_ports(1)

    def __enter__(self) -> "PgBouncer":
        self._folder = Path(tempfile.mkdtemp(prefix="pgbouncer-"))
        self._folder.chmod(0o755)
        configuration = self._folder / "pgbouncer.ini"
        configuration.write_text(_CONFIGURATION.format(server=self._server, user=self._user, port=self._port))
        command = [*_as_somebody_else(), self._program, str(configuration)]
        self._process = started(command, dict(os.environ), self._folder, self._port)
        return self

    def __exit__(self, *_: object) -> None:
        killed(self._process)
        shutil.rmtree(self._folder, ignore_errors=True)

    def through(self, url: str) -> str:
        """Return the URL of the same database through this pooler."""
        return urlunsplit(urlsplit(url)._replace(netloc=f"{self._user}@127.0.0.1:{self._port}"))

    def serves(self, url: str) -> bool:
        return urlsplit(url).port == self._server


def find_pgbouncer() -> str:
    program = shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")
    if program is None:
        raise PgBouncerMissing(
            "PgBouncer is not installed. Run `scripts/setup pgbouncer` (Debian: apt-get install pgbouncer)."
        )
    return program


def require_pgbouncer() -> None:
    """Skip a test where PgBouncer is missing; in CI nothing is silently left out."""
    try:
        find_pgbouncer()
    except PgBouncerMissing as reason:
        if os.environ.get("CI"):
            pytest.fail(str(reason))
        pytest.skip(str(reason))


def _as_somebody_else() -> list[str]:
    """The start of a command line: PgBouncer refuses to run as root, and must not outlive a killed test run."""
    if not shutil.which("setpriv"):
        return []
    options = ["--pdeathsig", "KILL"]
    if os.geteuid() == 0:
        account = pwd.getpwnam("nobody")
        options = [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups", *options]
    return ["setpriv", *options, "--"]


@contextlib.contextmanager
def every_ledger_behind(bouncer: PgBouncer, *, notified: bool = True) -> Iterator[None]:
    """Open the ledgers of this process through a pooler, if they are on its server; `notified`: with a second, direct
    connection for notifications."""
    from forager.ledger.postgres import PostgresLedger

    direct = PostgresLedger.open

    async def opened(url, catalog, **more):  # type: ignore[no-untyped-def]
        if bouncer.serves(url):
            more |= {"pooled": True, "direct_url": url if notified else None}
            url = bouncer.through(url)
        return await direct(url, catalog, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PostgresLedger, "open", opened)
        yield


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{find_pgbouncer()}\n")
    except PgBouncerMissing as missing:
        sys.exit(str(missing))
