"""Search and table files of records; the checks, the log and the browsers of a system."""

import io
from pathlib import Path

import pytest
import structlog

from forager.logging import configure_logs
from tests.support.api import JOB, Front

pytestmark = pytest.mark.one_store


async def test_records_are_found_by_words_of_any_field_and_exported_as_shown(simple: Front) -> None:
    await simple.create(**JOB)
    await simple.work()
    everything = await simple.data("/api/v1/records/place", limit=1000)
    word = everything[3]["title"].split()[0]
    expected = {row["place_uid"] for row in everything if word.lower() in str(row["title"]).lower()}
    found = {row["place_uid"] for row in await simple.data("/api/v1/records/place", search=word.upper())}
    assert expected <= found < {row["place_uid"] for row in everything}
    assert await simple.data("/api/v1/records/place", search="no place has these words") == []
    assert (await simple.client.get("/api/v1/records/place", params={"search": "x" * 201})).status_code == 422
    lines = (await simple.client.get("/api/v1/export/place", params={"search": word})).text.splitlines()
    assert len(lines) == len(found)


async def test_records_are_exported_as_parquet_and_excel(simple: Front) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("xlsxwriter")
    await simple.create(**JOB)
    await simple.work()
    count = len(await simple.data("/api/v1/records/place", limit=1000))
    got = await simple.client.get("/api/v1/export/place", params={"format": "parquet"})
    assert got.headers["content-disposition"] == 'attachment; filename="place.parquet"'
    assert parquet.read_table(io.BytesIO(got.content)).num_rows == count
    sheet = await simple.client.get("/api/v1/export/place", params={"format": "xlsx"})
    assert sheet.content[:2] == b"PK"
    unknown = await simple.client.get("/api/v1/export/nothing", params={"format": "xlsx"})
    assert (unknown.status_code, unknown.json()["meta"]["fields"][0]["field"]) == (422, "kind")


async def test_the_system_has_checks_with_remedies_and_settings_without_secrets(simple: Front) -> None:
    checks = await simple.data("/api/v1/system/checks")
    assert {"python", "settings", "disk"} <= {each["check"] for each in checks}
    assert all(each["remedy"] for each in checks if each["state"] == "problem")
    system = await simple.data("/api/v1/system")
    assert system["browsers"] is None or system["browsers"]["visits"] == []
    assert (await simple.client.get("/api/v1/system/browsers/7/thumbnail")).status_code == 404


async def test_the_log_tail_has_the_newest_lines_without_secrets(simple: Front, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as out:
        configure_logs("INFO", "json", ["hunter2"], stream=out)
        structlog.get_logger("forager.test").warning("tail_first", password="hunter2", text="a hunter2 b")
        structlog.get_logger("forager.test").info("tail_second")
        lines = await simple.data("/api/v1/system/log", level="info", limit=2)
        configure_logs("CRITICAL")
    assert [line["event"] for line in lines] == ["tail_second", "tail_first"]
    assert "hunter2" not in str(lines)
    warnings = await simple.data("/api/v1/system/log", level="warning", limit=500)
    assert "tail_second" not in {line["event"] for line in warnings}
    assert (await simple.client.get("/api/v1/system/log", params={"limit": 501})).status_code == 422
