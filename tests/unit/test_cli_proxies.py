"""`forager proxies …` and `forager db rotate-key` on a store of their own: what they print, and what they never do."""

import socket
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import Forager
from tests.support.proxies import CANARIES, CANARY_ADDRESS


@pytest.fixture
def closed(forager: Forager, monkeypatch: pytest.MonkeyPatch) -> str:
    """An address that an operator allows and where nobody answers."""
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    monkeypatch.setenv("FORAGER_EGRESS_ALLOW", address)
    return address


def test_a_proxy_is_added_from_standard_input_listed_switched_and_removed__PR_9(forager: Forager) -> None:
    added = forager("proxies", "add", "-", "--region", "us", "--json", stdin=f"{CANARY_ADDRESS}\n")
    assert added.code == 0, added.err
    number = str(added.data["id"])
    shown = forager("proxies", "list")
    assert "http://203.0.112.7" in shown.out
    assert "healthy" in shown.out
    assert "switched off" in forager("proxies", "set", number, "--inactive").out
    assert forager("proxies", "list", "--json").data[0]["is_active"] is False
    assert forager("proxies", "set", number, "--active", "--region", "", "--json").data["region"] is None
    assert forager("proxies", "remove", number).out == "Removed.\n"
    assert "No proxies" in forager("proxies", "list").err


def test_no_command_shows_a_user_or_password__S8(forager: Forager, closed: str) -> None:
    address = CANARY_ADDRESS.replace("203.0.112.7:8080", closed)
    runs = [
        forager("proxies", "add", address),
        forager("--debug", "proxies", "add", address),
        forager("proxies", "add", CANARY_ADDRESS.replace(":8080", "")),
        forager("--debug", "proxies", "add", CANARY_ADDRESS.replace("203.0.112.7", "10.0.0.1")),
        forager("proxies", "list"),
        forager("proxies", "list", "--json"),
        forager("--debug", "proxies", "check"),
        forager("db", "rotate-key"),
    ]
    assert [ran.code for ran in runs] == [0, 5, 2, 2, 0, 0, 1, 0]
    assert [secret for ran in runs for secret in CANARIES if secret in ran.all] == []


def test_a_failed_check_is_exit_1_with_the_reason(forager: Forager, closed: str) -> None:
    number = str(forager("proxies", "add", f"http://{closed}", "--json").data["id"])
    ran = forager("proxies", "check", number)
    assert ran.code == 1
    assert f"{number}: failed: no connection" in ran.out
    assert forager("proxies", "check", "77").code == 4
    assert forager("proxies", "remove", "77").code == 4
    assert forager("proxies", "set", number).code == 2


def test_the_key_of_the_store_is_changed_and_what_it_seals_is_kept__S9(forager: Forager, tmp_path: Path) -> None:
    forager("proxies", "add", CANARY_ADDRESS)
    key = tmp_path / ".forager" / "secret.key"
    before, sealed = key.read_text(), _passwords(tmp_path)
    ran = forager("db", "rotate-key", "--json")
    assert (ran.code, ran.data) == (0, {"resealed": 1, "dropped": 1})
    assert key.read_text() != before
    assert key.stat().st_mode & 0o777 == 0o600
    assert _passwords(tmp_path) != sealed
    again = forager("proxies", "add", CANARY_ADDRESS)
    assert again.code == 5, "it is still known as the same one"


@pytest.mark.usefixtures("store")
def test_wrong_proxies_in_the_settings_are_reported_by_name_without_their_password__S8(
    forager: Forager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRAPER_PROXY_ENDPOINTS", f"http://a.example:1,{CANARY_ADDRESS.replace(':8080', '')}")
    ran = forager("proxies", "list")
    assert ran.code == 2
    assert "port" in ran.err
    assert [secret for secret in CANARIES if secret in ran.all] == []


def _passwords(folder: Path) -> list[Any]:
    with closing(sqlite3.connect(folder / ".forager" / "ledger.db")) as db:
        return db.execute("SELECT password FROM proxies").fetchall()
