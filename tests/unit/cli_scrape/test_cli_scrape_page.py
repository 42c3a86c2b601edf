"""`forager scrape URL` without a type: any page, whole or in one format; and with an extractor from a file."""

import json
from pathlib import Path

from forager.sandbox.scrape_pages import SiteAnswer
from forager.sandbox.site import SandboxSite
from tests.support.cli import Forager

ARTICLE = """<!doctype html><html lang="en"><head><title>Reed beds | Fen Notes</title>
<meta name="description" content="How a fen dries out."><meta property="og:site_name" content="Fen Notes">
<script type="application/ld+json">{"@type": "Article", "headline": "Reed beds"}</script></head><body>
<nav><a href="/">Home</a><a href="/about">About us</a></nav>
<main><article><h1>Reed beds</h1>
<p>A reed bed filters water slowly, and it dies in a dry summer. <a href="/water">Water levels</a> decide
how long it lives, which is why every fen keeps a book of them, written by hand since the last century.</p>
<h2>Signs</h2><p>Yellow stems in June are the first sign that a bed is drying out. By August the roots break, and
the ground begins to sink by a finger's breadth each year.</p>
<ul><li>Yellow stems</li><li>Broken roots</li></ul></article></main>
<footer>Copyright Fen Notes, all rights reserved</footer></body></html>"""

OWN = """
from pydantic import BaseModel

from forager.extract.html.document import Document
from forager.pipelines.scrape.extractor import Extracted, Extractor, FieldFound, PageInput


class Signs(BaseModel):
    heading: str | None = None


def parse(page: PageInput, wanted: frozenset[str]) -> Extracted:
    found = Document(page.html, page.url).first_text("h2")
    return Extracted({"heading": FieldFound(found[0], "css:h2", 0.9)} if found else {})


signs = Extractor(name="signs", output=Signs, script=(), parse=parse)
"""


def at(site: SandboxSite, path: str = "/reed-beds") -> str:
    site.answers[path] = SiteAnswer(200, ARTICLE.encode())
    return site.url(path)


def test_any_page_is_read_without_a_type(forager: Forager, site: SandboxSite) -> None:
    url = at(site)
    page = forager("scrape", url, "--http", "--json").data
    result = page["result"]
    assert page["target_type"] == "page"
    assert page["meta"]["page_url"] == url
    assert (result["title"], result["language"]) == ("Reed beds | Fen Notes", "en")
    assert result["description"] == "How a fen dries out."
    assert result["structured_data"][0]["headline"] == "Reed beds"
    assert {"url": site.url("/water"), "text": "Water levels"} in result["links"]
    assert result["metadata"]["og:site_name"] == "Fen Notes"
    assert "html" not in result
    assert "## Signs" in result["markdown"]
    assert "Copyright" not in result["markdown"]


def test_a_file_in_place_of_a_url_leads_to_the_command_for_files(forager: Forager, tmp_path: Path) -> None:
    (tmp_path / "urls.csv").write_text("url\nhttps://shop.example/\n")
    ran = forager("scrape", "urls.csv")
    assert ran.code == 2
    assert "urls.csv is a file, not a URL. Read the pages that it names: forager scrape batch urls.csv" in ran.err


def test_the_page_that_max_age_stored_is_shown_by_its_task(forager: Forager, site: SandboxSite) -> None:
    site.answers["/reeds"] = SiteAnswer(200, ARTICLE.encode())
    read = forager("scrape", site.url("/reeds"), "--max-age", "6h", "--json").data
    again = forager("scrape", site.url("/reeds"), "--max-age", "6h", "--json").data
    without = forager("scrape", site.url("/reeds"), "--json").data

    assert again["meta"]["stored"]
    for task in (read["task_id"], again["task_id"]):
        assert forager("pages", "show", task).out == ARTICLE
    assert "with max_age" in forager("pages", "show", without["task_id"]).err


def test_one_format_is_printed_alone(forager: Forager, site: SandboxSite, tmp_path: Path) -> None:
    url = at(site)
    markdown = forager("scrape", url, "--http", "--as", "markdown").out
    assert markdown.count("Yellow stems in June") == 1
    assert "- Broken roots" in markdown
    assert "About us" not in markdown
    assert "## Signs" not in forager("scrape", url, "--http", "--as", "text").out
    assert site.url("/water") in forager("scrape", url, "--http", "--as", "links").out.splitlines()
    ran = forager("scrape", url, "--http", "--as", "html", "-o", "page.html")
    assert (ran.code, ran.out) == (0, "")
    assert (tmp_path / "page.html").read_text().strip() == ARTICLE.strip()


def test_a_screenshot_needs_a_browser_and_the_error_names_that(forager: Forager, site: SandboxSite) -> None:
    ran = forager("scrape", at(site), "--http", "--as", "screenshot", "-o", "page.png")
    assert ran.code == 2
    assert "a screenshot is made by a browser" in ran.err


def test_formats_are_for_any_page_and_an_unknown_type_is_named(forager: Forager, site: SandboxSite) -> None:
    wrong = forager("scrape", at(site), "--as", "markdwon")
    assert wrong.code == 2
    assert "unknown target type 'markdwon'; choose from" in wrong.err
    assert "or a format of any page: markdown, html, text, screenshot, links" in wrong.err


def test_an_extractor_is_loaded_from_a_file(forager: Forager, site: SandboxSite, tmp_path: Path) -> None:
    (tmp_path / "my_site.py").write_text(OWN)
    page = forager("scrape", at(site), "--http", "--extractor", "my_site.py", "--json").data
    assert (page["target_type"], page["result"]) == ("signs", {"heading": "Signs"})


def test_a_file_without_an_extractor_is_refused_by_its_name(
    forager: Forager, site: SandboxSite, tmp_path: Path
) -> None:
    (tmp_path / "empty.py").write_text("x = 1\n")
    (tmp_path / "broken.py").write_text("import no_such_module\n")
    for name, why in (("empty.py", "has no Extractor"), ("broken.py", "no_such_module"), ("none.py", "no file")):
        ran = forager("scrape", at(site), "--extractor", name)
        assert ran.code == 2, ran.err
        assert why in ran.err
        assert name in ran.err


def test_pages_of_a_file_need_no_type(forager: Forager, site: SandboxSite, tmp_path: Path) -> None:
    (tmp_path / "urls.txt").write_text("\n".join((at(site), at(site, "/other"))))
    ran = forager("scrape", "batch", "urls.txt", "--http", "--as", "markdown", "-o", "pages.jsonl")
    assert ran.code == 0, ran.err
    pages = [json.loads(line) for line in (tmp_path / "pages.jsonl").read_text().splitlines()]
    assert [list(page["result"]) for page in pages] == [["markdown"], ["markdown"]]
