"""`forager web --output`: a file that cannot be written is refused before a query is paid for."""

from pathlib import Path

from tests.support.cli import Forager


def test_a_file_that_cannot_be_written_is_refused_before_the_search(forager: Forager, tmp_path: Path) -> None:
    ran = forager("web", "oak", "--read", "1", "--output", str(tmp_path / "missing" / "oak.md"))
    assert ran.code == 2
    assert "--output: cannot be written: No such file or directory" in ran.err
    assert not (tmp_path / ".forager").exists()
