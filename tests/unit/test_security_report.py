"""The security report counts what was tried, refused and left undecided, and finds secrets in tracked files."""

import subprocess
import sys
from pathlib import Path

import pytest

from scripts import security
from scripts.security import CHECKS, Dependency, Row


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    monkeypatch.setattr(security, "ROOT", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("AWS access key", "AKIA" + "ABCDEFGH12345678"),
        ("GitHub token", "ghp_" + "a1B2" * 9),
        ("Google API key", "AIza" + "x" * 35),
        ("private key", "-----BEGIN RSA " + "PRIVATE KEY-----"),
        ("Apify token", "apify_api_" + "a1" * 20),
    ],
)
def test_a_secret_in_a_tracked_file_is_found_with_its_line(tree: Path, kind: str, text: str) -> None:
    (tree / "notes.md").write_text(f"one\ntwo {text}\n")
    (tree / "untracked.md").write_text(text)
    subprocess.run(["git", "-C", tree, "add", "notes.md"], check=True)
    assert list(security.secrets()) == [f"notes.md:2: {kind}"]


def test_names_of_secrets_are_not_taken_for_secrets(tree: Path) -> None:
    (tree / "notes.md").write_text("SERPER_API_KEY=… and sk-test, AKIA, a token ghp_short\n")
    subprocess.run(["git", "-C", tree, "add", "notes.md"], check=True)
    assert list(security.secrets()) == []


def test_the_page_counts_inputs_and_names_what_failed_or_did_not_run() -> None:
    rows = {number: Row() for number in CHECKS}
    no_server = "There is no server."
    rows[1] = Row(tests=3, tried=420, held=400, failed=["`test_a.py::test_x__S1`"], undecided=[no_server])
    rows[2] = Row(tests=2, tried=2, undecided=[no_server, no_server])
    packages = [
        Dependency("aiohttp", "3.14", "Apache-2.0", audited=True, vulnerabilities=("GHSA-1",)),
        Dependency("orjson", "3.11", "MIT", audited=False, vulnerabilities=()),
    ]
    text = security.page(rows, packages, ["a.py:1: private key"])
    assert "| 3 | 420 | 400 | 1 | 1 |" in text
    assert "- S1: `test_a.py::test_x__S1`" in text
    assert "- S1, S2: There is no server." in text
    assert "- aiohttp 3.14: GHSA-1" in text
    assert "2 pinned packages; 1 were looked up" in text
    assert "orjson 3.11" in text
    assert "- a.py:1: private key" in text


def test_inputs_of_a_test_are_counted_and_other_tests_are_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "suite"
    folder.mkdir()
    (folder / "test_it.py").write_text(
        "from tests.support.attempts import tried\n"
        "import pytest\n"
        "def test_many__S1(): assert len(tried([1, 2, 3])) == 3\n"
        "def test_one__S1__S3(): pass\n"
        "def test_wrong__S3(): assert False\n"
        "@pytest.mark.skip\n"
        "def test_later__S3(): pass\n"
        "def test_other(): assert False\n"
    )
    program = (
        "import sys, pytest; from scripts.security import Collector; c = Collector();"
        "pytest.main(['-q', '-p', 'tests.support.attempts', '-p', 'no:cacheprovider', '--rootdir', sys.argv[1],"
        " '--confcutdir', sys.argv[1], sys.argv[1]], plugins=[c]);"
        "rows = [(n, r.tests, r.tried, r.held, len(r.failed), len(r.undecided)) for n, r in c.rows.items() if r.tests];"
        "print('ROWS', rows)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program, folder], capture_output=True, text=True, check=True, cwd=security.ROOT
    )
    assert "ROWS [(1, 2, 4, 4, 0, 0), (3, 3, 3, 1, 1, 1)]" in answer.stdout, answer.stdout
