"""The guide's own extractor, taken from the page and installed as another package would: nothing else must change."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forager.sandbox.site_pages import page
from tests.support.scrape import API, open_service

GUIDE = Path(__file__).parents[3] / "docs" / "scrape.md"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package with the guide's code and its entry point, on the path."""
    text = GUIDE.read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    entry = re.search(r'\[project\.entry-points\."(.+)"\]\n(\w+) = "(.+)"', text)
    assert entry is not None
    site = tmp_path / "site"
    (site / "my_package").mkdir(parents=True)
    (site / "my_package" / "__init__.py").write_text("")
    (site / "my_package" / "recipes.py").write_text(code)
    about = site / "my_package-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{entry[1]}]\n{entry[2]} = {entry[3]}\n")
    monkeypatch.syspath_prepend(str(site))
    yield
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
