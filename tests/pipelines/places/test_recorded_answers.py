"""Each directory beside this file is a case: `answer.json` as Serper sends it, `output.json` as we read it."""

from pathlib import Path

import orjson
import pytest

from forager.core.outcome import Done
from forager.pipelines.places.job import Query
from forager.pipelines.places.records import Place, Sighting
from forager.pipelines.places.steps import Serper

from .conftest import Answer

HERE = Path(__file__).parent
CASES = sorted(path.parent.name for path in HERE.glob("*/answer.json"))
QUERY = Query(keyword="bars", zip="85001", page=1, pages=3, state="AZ")


async def outcome_of(case: str) -> Done:
    outcome = await Serper().search(QUERY, Answer((HERE / case / "answer.json").read_bytes()))
    assert isinstance(outcome, Done)
    return outcome


@pytest.mark.parametrize("case", CASES)
async def test_an_answer_is_read_as_recorded__PL_13(case: str) -> None:
    outcome = await outcome_of(case)
    read = {
        "cost": outcome.cost,
        "facts": dict(outcome.facts),
        "skip": [[skip.key, skip.message] for skip in outcome.skip],
        "places": [record.model_dump(exclude_none=True) for record in outcome.records if isinstance(record, Place)],
        "positions": [record.position for record in outcome.records if isinstance(record, Sighting)],
    }
    assert read == orjson.loads((HERE / case / "output.json").read_bytes())


@pytest.mark.parametrize("case", CASES)
async def test_a_record_made_unchecked_equals_a_validated_one(case: str) -> None:
    for record in (await outcome_of(case)).records:
        validated = type(record).model_validate(record.model_dump(), strict=True)
        assert record == validated
        assert record.model_dump_json() == validated.model_dump_json()
        assert list(record.model_dump()) == list(type(record).model_fields)


@pytest.mark.parametrize("case", CASES)
async def test_the_payload_of_a_sighting_is_the_row_whole__PL_13(case: str) -> None:
    sent = orjson.loads((HERE / case / "answer.json").read_bytes().replace(rb"\u0000", b""))["places"]
    kept = [record.payload for record in (await outcome_of(case)).records if isinstance(record, Sighting)]
    assert kept == [row for row in sent if row.get("title") or "cid" in row]
