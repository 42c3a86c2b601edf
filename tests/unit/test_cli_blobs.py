"""`forager blobs` on a store of its own."""

import pytest

from tests.support.cli import Forager


@pytest.mark.usefixtures("store")
def test_stored_pages_are_counted_and_collected(forager: Forager) -> None:
    shown = forager("blobs", "stat")
    assert (shown.code, forager("blobs", "stat", "--json").data["pages"]) == (0, 0)
    assert "on the disk" in shown.out
    assert forager("blobs", "gc").out == "0 pages removed, 0 kept; 0.0 MB returned to the disk.\n"
    assert "0 pages would be removed" in forager("blobs", "gc", "--dry-run").out
    assert forager("blobs", "gc", "--dry-run", "--json").data["dry_run"] is True
