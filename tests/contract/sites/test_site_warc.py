"""A crawl of HTML becomes a WARC file that other tools read."""

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from warcio.archiveiterator import ArchiveIterator

from forager.core.errors import Rejected
from forager.pipelines.sites.cli import _write_warc
from tests.support.linked import Linked

pytestmark = pytest.mark.one_store


class ApiPages:
    """The pages of a list over the API, as the command line reads them."""

    def __init__(self, linked: Linked) -> None:
        self._linked = linked

    async def pages(self, path: str, **query: Any) -> AsyncIterator[Any]:
        yield await self._linked.get(path, **{**query, "limit": 1000})


async def test_a_crawl_of_html_is_written_as_warc_with_every_page_once(small: Linked, tmp_path: Path) -> None:
    at: Any = SimpleNamespace(api=ApiPages(small))
    file = tmp_path / "site.warc.gz"
    await small.crawl(limit=3)
    with pytest.raises(Rejected, match="--as html"):
        await _write_warc(at, small.name, file, duplicates=True)
    assert not list(tmp_path.glob("site.warc*")), "nothing is left of a file without pages"
    await small.crawl(form="html")
    written = await _write_warc(at, small.name, file, duplicates=True)
    stored = {
        page["url"]: page["content"] for page in (await small.pages(content="true")).values() if page["form"] == "html"
    }
    with file.open("rb") as opened:
        found = {
            record.rec_headers["WARC-Target-URI"]: record.content_stream().read().decode()
            for record in ArchiveIterator(opened)
            if record.rec_type == "response"
        }
    assert written == len(found) >= 12
    assert found == stored
