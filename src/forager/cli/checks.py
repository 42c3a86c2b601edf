"""The checks of `forager doctor`. Every check returns its findings, never raises, and changes nothing.

A problem keeps Forager from working; a note is only information.
"""

import os
import platform
import shutil
import socket
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from forager import __version__
from forager.cli.file_checks import check_files
from forager.cli.place_checks import check_places
from forager.cli.service_checks import check_credentials, check_extras, check_services
from forager.core.errors import ForagerError, Rejected, StoreFull, StoreUnavailable
from forager.kit.cli.finding import Finding
from forager.kit.cli.render import near

if TYPE_CHECKING:
    from forager.settings import Settings

OLDEST_SQLITE = (3, 38, 0)
"""The first SQLite version with the operators that the views use."""
LITTLE_ROOM = 1 << 30
NO_ROOM = 100 << 20
KEY_FILES = ("service.key", "secret.key")
MEND_SERVER = "Start the database, or correct FORAGER_DATABASE_URL."


def examine(load: "Callable[[], Settings]") -> list[Finding]:
    """Run every check, each after those that it depends on."""
    findings = [_python(), _sqlite()]
    try:
        settings = load()
    except Rejected as error:
        wrong = "; ".join(f"{each.field}: {each.message}" for each in error.fields) or error.message
        return [
            *findings,
            Finding("settings", "problem", wrong, "Correct it in the environment, .env or forager.toml."),
        ]
    findings.append(Finding("settings", "ok", "valid"))
    machine = (_folder, _disk, _keys, _owner, _store, check_services, _port)
    beside = (check_extras, check_credentials, check_files, check_places)
    for check in (*machine, _features, _chromium, *beside):
        findings.extend(check(settings))
    return findings


def _python() -> Finding:
    return Finding("python", "ok", f"{platform.python_version()} on {platform.system()}, Forager {__version__}")


def _sqlite() -> Finding:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        return Finding(
            "sqlite",
            "problem",
            f"{sqlite3.sqlite_version} is older than 3.38",
            "Use a Python with a newer SQLite, or PostgreSQL (FORAGER_DATABASE_URL).",
        )
    return Finding("sqlite", "ok", sqlite3.sqlite_version)


def _folder(settings: "Settings") -> Iterator[Finding]:
    home = settings.home
    nearest = next(path for path in (home, *home.absolute().parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.R_OK | os.W_OK | os.X_OK):
        yield Finding(
            "data folder",
            "problem",
            f"{nearest} cannot be written by this user",
            "Change its owner, or set FORAGER_HOME to another folder.",
        )
    elif home.exists():
        yield Finding("data folder", "ok", near(home))
    else:
        yield Finding("data folder", "ok", f"{near(home)} (made on the first start)")


def _disk(settings: "Settings") -> Iterator[Finding]:
    nearest = next(path for path in (settings.home, *settings.home.absolute().parents) if path.exists())
    free = shutil.disk_usage(nearest).free
    room = f"{free / (1 << 30):,.1f} GB free"
    if free < NO_ROOM:
        yield Finding("disk", "problem", room, "Free some room: a ledger that cannot grow takes no work.")
    elif free < LITTLE_ROOM:
        yield Finding("disk", "note", room, "A job of 100,000 queries takes about 1 GB.")
    else:
        yield Finding("disk", "ok", room)


def _keys(settings: "Settings") -> Iterator[Finding]:
    for path in (settings.home / name for name in KEY_FILES):
        if not path.exists():
            continue
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077:
            yield Finding(path.name, "problem", f"others can read it (mode {mode:o})", f"Run: chmod 600 {near(path)}")
        else:
            yield Finding(path.name, "ok", f"for its owner alone (mode {mode:o})")


def _owner(settings: "Settings") -> Iterator[Finding]:
    if settings.api_url is not None:
        yield _answers("the Forager that commands go to", settings.api_url)
    if settings.database_url is not None:
        return
    from forager.ledger.sqlite.lock import read_owner

    owner = read_owner(settings.home / "lock")
    if owner is None:
        yield Finding("running", "ok", "no process has the store open; commands open it themselves")
    elif owner.url is None:
        yield Finding(
            "running",
            "note",
            f"process {owner.pid} has the store open without an API, so other commands must wait for it",
            "Wait until it has ended. To run several commands at once, start `forager up` first.",
        )
    else:
        yield _answers(f"process {owner.pid}", owner.url)


def _answers(who: str, url: str) -> Finding:
    from urllib.error import HTTPError, URLError
    from urllib.request import urlopen

    try:
        with urlopen(f"{url}/readiness", timeout=5):  # noqa: S310 - the URL is that of our own lock file
            return Finding("running", "ok", f"{who} answers at {url}")
    except HTTPError as error:
        return Finding("running", "problem", f"{url} is not ready ({error.code})", "Its log says why.")
    except (URLError, OSError) as error:
        return Finding("running", "problem", f"{url} does not answer ({error})", f"Start {who}, or look at its log.")


def _store(settings: "Settings") -> Iterator[Finding]:
    from forager.ledger.catalog import Catalog
    from forager.ledger.schema import migrate
    from forager.ledger.schema.namespace import locate
    from forager.ledger.schema.pooler import REMEDY, is_behind_pooler
    from forager.ledger.sqlite.lock import read_owner
    from forager.wiring import build_pipelines

    path = settings.home / "ledger.db"
    embedded = settings.database_url is None
    if embedded and not path.exists():
        yield Finding("store", "ok", f"{near(path)} (made on the first start)")
        return
    if embedded and read_owner(settings.home / "lock") is not None:
        yield Finding("store", "ok", f"{near(path)}, {_size(path)}; its owner checked the schema when it started")
        return
    answers = f"PostgreSQL answers{' through a connection pooler' if settings.database_pooled else ''}"
    where = f"{near(path)}, {_size(path)}" if embedded else answers
    try:
        store = locate(settings.database_url, settings.database_schema) if settings.database_url else path
        if not embedded and not settings.database_pooled and is_behind_pooler(store):
            yield Finding("store", "problem", "a connection pooler is between Forager and PostgreSQL", REMEDY)
            return
        stands = migrate.current(store)
        if not stands:
            yield Finding("store", "ok", f"{where}, empty (the schema is made on the first start)")
            return
        migrate.check(store, Catalog(build_pipelines(settings)))
        yield Finding("store", "ok", f"{where}, schema {', '.join(stands)}")
    except StoreFull as error:
        yield Finding("store", "problem", error.message)
    except StoreUnavailable as error:
        yield Finding("store", "problem", error.message, _mend_file(path) if embedded else MEND_SERVER)
    except ForagerError as error:
        yield Finding("store", "problem", error.message)


def _mend_file(path: Path) -> str:
    return (
        f"This user must be able to read and write {near(path)}. If it is damaged, restore a copy of it, or move it"
        f" away (with {path.name}-wal and {path.name}-shm): the next start makes an empty one."
    )


def _port(settings: "Settings") -> Iterator[Finding]:
    from forager.ledger.sqlite.lock import read_owner

    if settings.port == 0 or read_owner(settings.home / "lock") is not None:
        return
    try:
        with socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind((settings.host, settings.port))
    except OSError as error:
        at = f"{settings.host}:{settings.port}"
        remedy = "`forager up` needs another: set FORAGER_PORT, or use --port."
        yield Finding("port", "note", f"{at} cannot be used ({error.strerror})", remedy)


def _features(settings: "Settings") -> Iterator[Finding]:
    """Run the checks that each pipeline declares."""
    from forager.features import all_features

    for feature in all_features():
        if feature.checks is not None:
            yield from feature.checks.load()(settings)


def _chromium(settings: "Settings") -> Iterator[Finding]:
    """Report a missing browser as a note, not as a problem: only pipelines that visit pages need one."""
    from importlib.util import find_spec

    from forager.core.errors import Unconfigured
    from forager.fetch.browser.executable import find_chromium

    try:
        path = find_chromium(settings.chromium)
    except Unconfigured as error:
        problem, _, remedy = error.message.partition(". ")
        yield Finding("chromium", "problem" if settings.chromium else "note", problem, remedy)
        return
    if find_spec("playwright") is None:
        remedy = "Install it to visit pages with a browser: pip install 'forager-data[browser]'."
        yield Finding("chromium", "note", f"{path}, but Playwright is not installed", remedy)
    else:
        most = settings.browser_pool_max
        yield Finding("chromium", "ok", f"{path}, at most {most} at once")


def _size(path: Path) -> str:
    return f"{path.stat().st_size / (1 << 20):,.1f} MB"
