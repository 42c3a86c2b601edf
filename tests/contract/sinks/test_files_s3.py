"""The files sink on S3: answers that are lost, requests that arrive twice, servers and addresses that are refused."""

import io
import json
from pathlib import Path

import pytest
from pyarrow import parquet
from pydantic import SecretStr

from forager.app.checks import check_storage
from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.core.errors import Rejected, Transient
from forager.core.sink import SinkRow
from forager.core.storage import Storage
from forager.sinks.files import manifest as files_manifest
from forager.sinks.files.manifest import all_manifests, json_lines, last_manifest
from forager.sinks.files.sink import FilesSink
from forager.storage.s3 import S3
from forager.storage.settings import S3Address, S3Settings
from tests.contract.sinks.test_files import change
from tests.support.chaos import Dice
from tests.support.engine import until
from tests.support.lossy_s3 import LossyS3
from tests.support.s3 import SECRET, address_of, place_of, s3_server, s3_settings, s3_values


def sink_at(place: Storage) -> FilesSink:
    return FilesSink(SinkRow("files", "files"), place, json_lines, "jsonl")


def ids(place: Storage) -> list[int]:
    parts = [part for manifest in all_manifests(place) for part in manifest.parts]
    return [json.loads(line)["id"] for part in parts for line in place.get(part.path).splitlines()]


def unnamed(place: Storage) -> set[str]:
    """Files that no manifest names."""
    named = {part.path for manifest in all_manifests(place) for part in manifest.parts}
    return {path for path in place.list("") if not path.startswith("manifests/")} - named


async def deliver(sink: FilesSink, first: int, last: int) -> None:
    """As the engine does: the same changes again, until the sink has taken them."""
    while True:
        try:
            await sink.write([change(number) for number in range(first, last + 1)])
        except (Transient, OSError):
            continue
        return


@pytest.mark.parametrize("losses", [50, pytest.param(1_000, marks=pytest.mark.chaos)])
async def test_answers_that_are_lost_after_the_effect_lose_and_double_nothing__R17(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, losses: int
) -> None:
    monkeypatch.setattr(files_manifest, "NOTED_EVERY", 3)  # with this loss rate, a long search from the note never ends
    dice, number = Dice(), 0

    def fault(method: str, path: str) -> str:
        if "manifests/0" in path and method == "PUT" and not (network.fired["late"] and dice.between(0, 3)):
            return "late"  # the commit happens after the sink has given it up, or not at all
        return "" if method == "GET" or dice.between(0, 2) else "lost"

    with LossyS3(s3_server().endpoint, fault) as network:
        sink = sink_at(place_of(tmp_path, network.endpoint))
        while network.fired["lost"] < losses:
            if not dice.between(0, 9):
                sink = sink_at(place_of(tmp_path, network.endpoint))  # as after a crash
            again, size = dice.between(0, 3), dice.between(1, 5)  # the next batch is cut differently
            await deliver(sink, max(1, number - again), number + size)
            number += size
    assert network.fired["late"] > 0
    place = place_of(tmp_path)
    await sink_at(place).write([change(number + 1)])
    assert ids(place) == list(range(1, number + 2))
    assert unnamed(place) == set()


async def test_a_commit_that_arrives_twice_counts_once_and_keeps_its_files(tmp_path: Path) -> None:
    with LossyS3(s3_server().endpoint, lambda *_: "twice") as network:
        sink = sink_at(place_of(tmp_path, network.endpoint))
        for number in (1, 2, 3):
            await sink.write([change(number)])
    assert network.fired["twice"] > 0
    assert ids(place_of(tmp_path)) == [1, 2, 3]


async def test_a_server_that_ignores_if_none_match_is_refused_before_anything_is_committed(tmp_path: Path) -> None:
    """The negative control: on such a server, of two writers the second would win."""
    with LossyS3(s3_server().endpoint, lambda *_: "blind") as network:
        with pytest.raises(Transient, match="ignores If-None-Match"):
            await sink_at(place_of(tmp_path, network.endpoint)).write([change(1)])
        unsafe = place_of(tmp_path, network.endpoint)
        unsafe._can_create = True
        assert [unsafe.create("x", b"1"), unsafe.create("x", b"2")] == [True, True]
    assert ids(place_of(tmp_path)) == []


async def test_a_wrong_secret_and_a_dead_server_are_failures_that_pass_and_show_no_secret(tmp_path: Path) -> None:
    values = {**s3_values(), "s3_secret_key": SecretStr("canary-secret-0123456789")}
    wrong = S3(address_of(tmp_path), new_settings(**values).of(S3Settings))
    with pytest.raises(Transient, match="SignatureDoesNotMatch") as refused:
        await sink_at(wrong).write([change(1)])
    assert "canary" not in str(refused.value)
    assert "<" not in str(refused.value), "the server's words, without its XML"
    with pytest.raises(Transient, match=r"http://127\.0\.0\.1:1 cannot be reached") as down:
        await sink_at(S3(address_of(tmp_path), s3_settings("http://127.0.0.1:1"))).write([change(1)])
    assert SECRET not in str(down.value)


async def test_a_row_writes_only_to_addresses_that_the_settings_allow(tmp_path: Path) -> None:
    allowed = address_of(tmp_path)
    settings = new_settings(home=tmp_path, files_s3=str(allowed), **s3_values())
    async with open_app(settings) as app:
        for to in ("s3://elsewhere/x", f"{allowed}x", f"{allowed}/../x", f"s3://{allowed.bucket}", "https://a.example"):
            with pytest.raises(Rejected):
                await app.roster.add(SinkRow("jobs", "files", options={"to": to}))
        with pytest.raises(Rejected, match="FORAGER_FILES_FOLDER"):
            await app.roster.add(SinkRow("jobs", "files"))
        options = {"to": f"{allowed}/raw", "format": "parquet"}
        await app.roster.add(SinkRow("jobs", "files", kinds=frozenset({"job"}), options=options))
        await app.submit("places", {"keyword": "bars", "zips": ["85001"], "dry_run": True})
        place = S3(allowed.below("raw").below("jobs"), s3_settings())
        async with app.engine(schedules=False):
            await until(lambda: last_manifest(place).cursor)
    (part,) = last_manifest(place).parts
    (row,) = parquet.read_table(io.BytesIO(place.get(part.path))).to_pylist()
    assert (row["change_kind"], row["change_op"], row["change_pipeline"]) == ("job", "created", "places")
    assert json.loads(row["change_rest"])["state"] == "completed"


def test_an_address_is_a_bucket_and_a_clean_prefix__S18() -> None:
    assert S3Address.parse("s3://bucket/a/b/") == S3Address("bucket", ("a", "b"))
    assert str(S3Address.parse("s3://bucket")) == "s3://bucket"
    for text in ("bucket", "s3://", "s3://b", "s3://Bucket", "s3://bucket//a", "s3://bucket/a/../b", "s3://bucket/.a"):
        with pytest.raises(ValueError):
            S3Address.parse(text)
    with pytest.raises(ValueError):
        new_settings(files_s3="s3://bucket/a,/folder")
    assert len(new_settings(files_s3="s3://bucket/a, s3://other").files_s3) == 2  # type: ignore[attr-defined]


def test_doctor_names_the_storage_that_cannot_be_reached(tmp_path: Path) -> None:
    here = str(address_of(tmp_path))
    there = new_settings(home=tmp_path, blobs=here, archive="folder", files_s3=here, **s3_values())
    assert [(each.check, each.state) for each in check_storage(there)] == [
        ("FORAGER_BLOBS", "ok"),
        ("FORAGER_FILES_S3", "ok"),
    ]
    (finding,) = check_storage(new_settings(home=tmp_path, archive=here, **s3_values("http://127.0.0.1:1")))
    assert (finding.check, finding.state) == ("FORAGER_ARCHIVE", "problem")
    assert SECRET not in finding.message


def test_half_of_a_log_in_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="belong together"):
        S3(address_of(tmp_path), new_settings(s3_access_key="key").of(S3Settings))
