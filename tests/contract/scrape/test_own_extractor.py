"""The guide's own extractor, taken from the page and installed as another package would: nothing else must change."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forager.sandbox.scrape_pages import page
from forager.sdk import feature
from tests.support.guide import install
from tests.support.scrape import API, open_service


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The guide's package, on the path."""
    monkeypatch.syspath_prepend(str(install("my_package", tmp_path / "site")))
    feature.installed.cache_clear()  # a process looks for packages once
    yield
    feature.installed.cache_clear()
    for name in ("my_package", "my_package.recipes"):
        sys.modules.pop(name, None)


async def test_an_extractor_of_another_package_is_one_file_and_an_entry_point__SC_3(
    installed: None, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    async with open_service(home) as service, service.app.engine():
        service.site.answers["/soup"] = page("Soup", "<h1> Onion <b>soup</b> </h1><p>Ready in 40 minutes.</p>" * 9)
        answer = await service.sync("/soup", target_type="recipe")
        assert answer.status_code == 200, answer.text
        assert answer.json()["data"]["result"] == {"title": "Onion soup", "minutes": 40}
        assert answer.json()["meta"]["provenance"]["title"]["source"] == "css:h1"
        wrong = await service.client.post(API, json=service.target(target_type="recipe", requested_fields=["salt"]))
        assert wrong.status_code == 422
        assert "it has title, minutes" in wrong.json()["meta"]["fields"][0]["message"]


async def test_without_the_package_its_kind_of_page_is_unknown__SC_3(tmp_path: Path) -> None:
    async with open_service(tmp_path) as service:
        refused = await service.client.post(API, json=service.target(target_type="recipe"))
        assert refused.status_code == 422
        assert refused.json()["meta"]["fields"][0]["field"] == "target_type"
