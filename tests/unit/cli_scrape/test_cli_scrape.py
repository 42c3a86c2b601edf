"""`forager scrape` on a store of its own and a site of its own: what it prints, what it refuses, how it ends."""

import csv
import json
import os
import threading
from pathlib import Path

import pytest

from forager.api.create import MOST_BYTES
from forager.core.errors import Rejected
from forager.pipelines.scrape.cli import batch
from forager.pipelines.scrape.cli.batch import CheckedTargets, TargetFile, TargetLine, parts_of, target_file
from forager.sandbox.scrape_pages import company, job
from forager.sandbox.scrape_pages import job as job_page
from forager.sandbox.site import SandboxSite
from forager.sdk.cli.render import Show
from tests.support.cli import Forager


def test_a_url_is_read_and_its_fields_printed(forager: Forager, site: SandboxSite) -> None:
    ran = forager("scrape", site.url("/jobs/jsonld/2"), "--as", "job_posting", "--http")
    assert ran.code == 0, ran.err
    assert job(2)["title"] in ran.out
    assert "company_name" in ran.out


def test_its_result_can_be_exported_like_any_record(forager: Forager, site: SandboxSite) -> None:
    forager("scrape", site.url("/jobs/jsonld/2"), "--as", "job_posting", "--http")
    exported = json.loads(forager("export", "scrape_result").out)
    assert exported["result"]["job_title"] == job(2)["title"]


def test_nested_results_are_columns_of_a_csv_file(forager: Forager, site: SandboxSite, tmp_path: Path) -> None:
    for path, kind in (("/jobs/jsonld/2", "job_posting"), ("/companies/pages/1", "company_website")):
        forager("scrape", site.url(path), "--as", kind, "--http")
    ran = forager("export", "scrape_result", "-f", "csv", "-o", "pages.csv", "--json")
    with (tmp_path / "pages.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert ran.data["rows"] == len(rows) == 2
    assert [row["result.job_title"] for row in rows] == [job(2)["title"], ""]
    assert rows[1]["result.company_name"] == company(1)["name"]
    assert "result" not in rows[0]


def test_options_may_come_first_and_json_has_where_each_field_was_found(forager: Forager, site: SandboxSite) -> None:
    fields = ("--fields", "job_title,company_name", "-f", "location")
    said = forager("scrape", "--as", "job_posting", *fields, "--json", site.url("/jobs/jsonld/3")).data
    assert set(said["result"]) == {"job_title", "company_name", "location"}
    assert said["result"]["job_title"] == job(3)["title"]
    assert said["provenance"]["job_title"]["page"] == site.url("/jobs/jsonld/3")


def test_an_unavailable_page_is_exit_code_1_with_the_reason(forager: Forager, site: SandboxSite) -> None:
    ran = forager("scrape", site.url("/nowhere"), "--as", "job_posting", "--http")
    assert ran.code == 1
    assert "could not be fetched: " in ran.err
    assert "no such page (404)" in ran.err
    other = forager("scrape", site.url("/jobs/jsonld/2"), "--as", "listing", "--http")
    assert other.code == 1
    assert "/jobs/jsonld/2 is not a page of the type listing: it has none of the values" in other.err
    as_json = forager("scrape", site.url("/nowhere"), "--as", "job_posting", "--http", "--json")
    assert (as_json.code, as_json.data["reason"]) == (1, "not_found")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("https://example.com/", "--as", "poem"), "unknown target type 'poem'"),
        (("https://example.com/", "--as", "job_posting", "--fields", "smell"), "has no smell"),
        (("example.com", "--as", "job_posting"), "URL: not a valid http(s) URL"),
        (("https://example.com/", "--as", "job_posting", "--http", "--browser"), "one of --browser and --http"),
        (("batch", "missing.jsonl"), "missing.jsonl cannot be read"),
    ],
)
def test_an_invalid_request_is_exit_code_2_with_the_reason(forager: Forager, words: tuple[str, ...], told: str) -> None:
    ran = forager("scrape", *words)
    assert ran.code == 2
    assert told in ran.err


def test_a_file_is_read_page_by_page_in_its_order(forager: Forager, site: SandboxSite, tmp_path: Path) -> None:
    lines = [
        site.url("/jobs/jsonld/1"),
        "",
        json.dumps({"target_url": site.url("/companies/jsonld/4"), "target_type": "company_website"}),
        site.url("/nowhere"),
    ]
    (tmp_path / "pages.jsonl").write_text("\n".join(lines))
    ran = forager("scrape", "batch", "pages.jsonl", "--as", "job_posting", "--http", "--json")
    assert ran.code == 1
    assert [page["status"] for page in ran.data] == ["completed", "completed", "failed"]
    assert ran.data[1]["result"]["company_name"] == company(4)["name"]
    assert ran.data[2]["reason"] == "not_found"
    assert "no such page" in ran.data[2]["error"]
    shown = forager("scrape", "batch", "pages.jsonl", "--as", "job_posting", "--http")
    assert job(1)["title"].split()[0] in shown.out
    assert "1 of 3 pages" in shown.err


def test_several_urls_are_one_job(forager: Forager, site: SandboxSite) -> None:
    urls = [site.url(f"/jobs/jsonld/{n}") for n in (2, 3)]
    pages = forager("scrape", *urls, "--as", "job_posting", "--fields", "job_title", "--http", "--json").data
    assert [page["target_url"] for page in pages] == urls
    assert [page["result"]["job_title"] for page in pages] == [job(2)["title"], job(3)["title"]]
    assert len(forager("jobs", "list", "--json").data) == 1
    assert forager("scrape", *urls, "--extractor", "own.py").code == 2


def test_a_table_with_a_column_url_is_read_and_its_other_columns_are_ignored(
    forager: Forager, site: SandboxSite, tmp_path: Path
) -> None:
    url = site.url("/jobs/jsonld/2")
    (tmp_path / "shops.csv").write_text(f"name,URL,render,note\nFirst,{url},http,\n")
    (page,) = forager("scrape", "run", "shops.csv", "--as", "job_posting", "--json").data
    assert page["result"]["job_title"] == job(2)["title"]


def test_a_long_file_is_one_job_whose_id_is_printed_and_goes_to_a_file(
    forager: Forager, site: SandboxSite, tmp_path: Path
) -> None:
    """More pages than a request to the API may have, and than the queue of single pages holds."""
    pages = [site.url(f"/jobs/jsonld/{number}") for number in range(130)]
    (tmp_path / "pages").write_text("\n".join(pages))

    ran = forager("scrape", "batch", "pages", "--as", "job_posting", "--http", "-o", "found.csv")

    assert ran.code == 0, ran.err
    (job,) = forager("jobs", "list", "--json").data
    assert (job["total"], job["completed"]) == (130, 130)
    assert f"Job {job['id']}: 130 pages" in ran.err
    assert "130 pages in found.csv" in ran.err
    with (tmp_path / "found.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["target_url"] for row in rows] == pages
    assert rows[5]["result.job_title"] == job_page(5)["title"]


def test_a_file_of_several_parts_is_one_job_and_running_it_again_is_another(
    forager: Forager, site: SandboxSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "MOST_TARGETS", 50)
    pages = [site.url(f"/jobs/jsonld/{number}") for number in range(101)]
    (tmp_path / "pages").write_text("\n".join(pages))

    for runs in (1, 2):
        ran = forager("scrape", "batch", "pages", "--as", "job_posting", "--http", "--json")
        assert ran.code == 0, ran.err
        assert [page["target_url"] for page in ran.data] == pages
        jobs = forager("jobs", "list", "--json").data
        assert [(job["state"], job["total"], job["completed"]) for job in jobs] == [("completed", 101, 101)] * runs
    assert "pages" in forager("jobs", "list").out


def test_a_file_that_is_a_pipe_is_read_whole(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("https://a.example/\nhttps://b.example/\n",))
    writer.start()
    with target_file(pipe, {"workspace_id": "acme"}) as file:
        writer.join(60)
        assert file.check(print).pages == 2
        assert [line.target["target_url"] for line in file.lines()] == ["https://a.example/", "https://b.example/"]


def test_a_file_that_changes_after_its_check_starts_nothing(
    forager: Forager, site: SandboxSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pages"
    file.write_text(site.url("/jobs/jsonld/1"))
    check = TargetFile.check

    def checked_then_changed(self: TargetFile, show: Show) -> CheckedTargets:
        checked = check(self, show)
        file.write_text(site.url("/jobs/jsonld/2"))
        return checked

    monkeypatch.setattr(TargetFile, "check", checked_then_changed)
    ran = forager("scrape", "batch", "pages", "--http")
    assert ran.code == 2
    assert "pages changed while it was read" in ran.err
    assert site.log == []


def test_a_csv_file_names_pages_by_its_header(tmp_path: Path) -> None:
    file = tmp_path / "pages.csv"
    file.write_text(
        "target_url,requested_fields,render\nhttps://a.example/,job_title location,\nhttps://b.example/,,http\n"
    )
    first, second = TargetFile(file, file.name, {"target_type": "job_posting", "render": "auto"}).lines()
    assert first.target["requested_fields"] == ["job_title", "location"]
    assert (first.target["render"], second.target["render"]) == ("auto", "http")
    assert (first.number, second.number) == (2, 3)


def test_mistakes_in_a_file_are_reported_by_line(forager: Forager, site: SandboxSite, tmp_path: Path) -> None:
    lines = [
        site.url("/jobs/jsonld/1"),
        "",
        '{"target_url": "example.com"}',
        '{"target_url": "https://example.com/", "callback_url": "https://hooks.example/"}',
        '{"target_url": "https://example.com/", "target_type": "poem"}',
    ]
    (tmp_path / "pages.jsonl").write_text("\n".join(lines))
    ran = forager("scrape", "batch", "pages.jsonl", "--as", "job_posting")
    assert ran.code == 2
    assert "line 3, target_url: not a valid http(s) URL" in ran.err
    assert "line 4: a target of a batch has no callback_url of its own" in ran.err
    (tmp_path / "pages.jsonl").write_text(lines[4])
    ran = forager("scrape", "batch", "pages.jsonl", "--as", "job_posting")
    assert "line 1, target_type: unknown target type 'poem'" in ran.err
    assert site.log == []


def test_a_long_file_is_checked_completely_before_its_first_page_is_requested(
    forager: Forager, site: SandboxSite, tmp_path: Path
) -> None:
    good = [site.url(f"/jobs/jsonld/{n}") for n in range(120)]
    wrong = [json.dumps({"target_url": "example.com"}), json.dumps({"target_url": good[0], "callback_url": good[1]})]
    (tmp_path / "pages.jsonl").write_text("\n".join([*good, *wrong]))
    ran = forager("scrape", "batch", "pages.jsonl", "--as", "job_posting", "--http")
    assert ran.code == 2
    assert "line 121, target_url: not a valid http(s) URL" in ran.err
    assert "line 122: a target of a batch has no callback_url of its own" in ran.err
    assert site.log == []


def test_the_error_for_a_batch_of_bad_targets_is_not_that_it_has_none(forager: Forager, tmp_path: Path) -> None:
    (tmp_path / "pages.jsonl").write_text('{"target_url": "example.com"}')
    ran = forager("scrape", "batch", "pages.jsonl", "--as", "job_posting")
    assert len([line for line in ran.err.splitlines() if line.startswith("  ")]) == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "names no page"),
        ("{", "line 1 is neither"),
        ("[1]", "not a JSON object"),
        ('{"url": "https://a.example/"}', "line 1 names no page"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "pages.jsonl"
    file.write_text(text)
    with pytest.raises(Rejected, match=told):
        TargetFile(file, file.name, {}).check(print)


def test_the_error_for_a_csv_file_without_the_column_lists_its_columns(tmp_path: Path) -> None:
    file = tmp_path / "pages.csv"
    file.write_text("address,kind\nhttps://a.example/,job_posting\n")
    with pytest.raises(Rejected, match=r"no column url or target_url\..*: address, kind"):
        TargetFile(file, file.name, {"target_type": "job_posting"}).check(print)


@pytest.mark.parametrize(("pages", "length", "count"), [(10_000, 20, 1), (10_001, 20, 2), (10_000, 1_900, 11)])
def test_a_file_is_sent_in_parts_that_the_api_takes_and_in_order(pages: int, length: int, count: int) -> None:
    lines = [TargetLine(n, {"target_url": f"https://a.example/{n:0{length}}"}) for n in range(pages)]
    parts = list(parts_of(lines))
    assert len(parts) == count
    assert [line.number for part in parts for line in part] == list(range(pages))
    for part in parts:
        body = {"targets": [line.target for line in part], "source": "pages.jsonl", "more": True}
        assert len(json.dumps(body)) < MOST_BYTES
