"""Long texts of a page are cleaned by its reader: entities and tags of 1 MB would hold up the event loop."""

import json
from datetime import UTC, datetime

import pytest

from forager.core.http import Response
from forager.core.reading import result_of
from forager.extract.text import normalise as texts
from forager.extract.text.normalise import LONG, normalise
from forager.pipelines.scrape.extractors.job_posting import job_posting
from forager.pipelines.scrape.job import ScrapeTask
from forager.pipelines.scrape.steps import Reading, read_page

URL = "https://jobs.example/posting/7"
AT = datetime(2026, 1, 2, tzinfo=UTC)
SENTENCE = "We look for a &lt;b&gt;welder&lt;/b&gt; who knows &amp;amp; likes the sea. "


def page(description: str) -> bytes:
    posting = {"@type": "JobPosting", "title": "Welder", "description": description}
    return f"<script type='application/ld+json'>{json.dumps(posting)}</script><h1>Welder</h1>".encode()


@pytest.mark.parametrize("times", [1, LONG, 3 * LONG])
def test_the_result_is_the_same_whoever_cleans_a_text(times: int) -> None:
    body = page(SENTENCE * times)
    response = Response(status=200, body=body, url=URL, at=AT, headers={}, elapsed_ms=1)
    reading = Reading(job_posting, None)

    crossed = result_of(read_page).validate_json(result_of(read_page).dump_json(read_page(*reading.question(response))))
    reading.add(response, crossed)
    result = reading.result(ScrapeTask(target_type="job_posting", target_url=URL, workspace_id="w", number=0))

    raw = read_page(body, job_posting.parse, None, URL, 200, AT, job_posting.fields).fields
    alone = normalise(job_posting.output, {name: found.value for name, found in raw.items()})
    assert result.result["description"] == alone.result.model_dump()["description"]
    assert "<b>" not in result.result["description"]
    assert crossed.fields["description"].is_clean is (times > 1)
    assert crossed.fields["job_title"].is_clean is False


def test_a_text_that_a_reader_has_cleaned_is_not_cleaned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    response = Response(status=200, body=page(SENTENCE * LONG), url=URL, at=AT, headers={}, elapsed_ms=1)
    reading = Reading(job_posting, None)
    reading.add(response, read_page(*reading.question(response)))
    lengths: list[int] = []
    cleaned = texts._cleaned

    def watched(output: type, name: str, value: object) -> object:
        lengths.append(len(str(value)))
        return cleaned(output, name, value)

    monkeypatch.setattr(texts, "_cleaned", watched)
    reading.result(ScrapeTask(target_type="job_posting", target_url=URL, workspace_id="w", number=0))

    assert lengths
    assert max(lengths) <= LONG
