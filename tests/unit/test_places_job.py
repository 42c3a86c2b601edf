"""Valid parameters of a places job, and the errors for invalid ones."""

import pytest
from pydantic import ValidationError

from forager.core.errors import Rejected
from forager.pipelines.places.job import PlacesDefaults, PlacesJob, check, places_params, zip_codes
from forager.pipelines.places.zips import Zip, ZipTable

ZIPS = ZipTable(
    [
        Zip("85001", "AZ", type="PO BOX"),
        Zip("85003", "AZ"),
        Zip("85002", "AZ"),
        Zip("85009", "AZ", active=False),
        Zip("02139", "MA"),
        Zip("09001", "AE", type="MILITARY"),
    ]
)


def problems(**asked: object) -> dict[str, str]:
    with pytest.raises(ValidationError) as caught:
        PlacesJob.model_validate(asked)
    return {".".join(map(str, error["loc"])): error["msg"] for error in caught.value.errors()}


def test_the_defaults_are_the_seeds__PL_1() -> None:
    job = PlacesJob(keyword="bars", state="AZ")
    assert (job.pages, job.batch_size, job.concurrency, job.dry_run, job.max_credits) == (3, 100, None, False, None)


def test_input_is_trimmed_and_normalised__PL_1() -> None:
    job = PlacesJob.model_validate({"keyword": " coffee \t\n roasters ", "state": " az "})
    assert (job.keyword, job.state) == ("coffee roasters", "AZ")
    assert PlacesJob(keyword="cafe\u0301", state="AZ").keyword == "caf\u00e9"


def test_zips_are_trimmed_and_queried_once_in_the_given_order__PL_1() -> None:
    job = PlacesJob.model_validate({"keyword": "bars", "zips": ["85003", " 02139", "85003"]})
    assert job.zips == ("85003", "02139")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("keyword", ""),
        ("keyword", " \n "),
        ("keyword", "x" * 201),
        ("keyword", "bars\x00"),
        ("keyword", "bars\x7f"),
        ("keyword", "\ud800"),
        ("keyword", 7),
        ("state", "A"),
        ("state", "Arizona"),
        ("state", "Ä1"),
        ("pages", 0),
        ("pages", 11),
        ("pages", True),
        ("pages", "3"),
        ("batch_size", 0),
        ("batch_size", 10_001),
        ("concurrency", 0),
        ("concurrency", 1_001),
        ("max_credits", -1),
        ("max_credits", 10**30),
        ("dry_run", "yes"),
        ("po_boxes", 1),
        ("unheard_of", 1),
    ],
)
def test_bad_input_gets_an_error_on_its_field__PL_1(field: str, value: object) -> None:
    assert list(problems(**{"keyword": "bars", "state": "AZ", field: value})) == [field]


@pytest.mark.parametrize("zips", [["8500"], ["850011"], ["85001-1234"], ["٨٥٠٠١"], [""], [], ["x" * 9_000]])
def test_invalid_zips_get_one_error_on_the_list__PL_1(zips: list[str]) -> None:
    told = problems(keyword="bars", zips=zips)
    assert list(told) == ["zips"]
    assert len(told["zips"]) < 200


def test_many_wrong_zips_are_counted_not_listed__PL_1() -> None:
    told = problems(keyword="bars", zips=[f"x{n}" for n in range(1_000)])
    assert told["zips"].endswith("'x0', 'x1', 'x2', 'x3', 'x4' and 995 more")


def test_more_than_fifty_thousand_zips_are_too_many__PL_1() -> None:
    assert list(problems(keyword="bars", zips=["85001"] * 50_001)) == ["zips"]


def test_a_job_has_a_state_or_zips_and_not_both__PL_1() -> None:
    assert "give `state`" in problems(keyword="bars")[""]
    assert "not both" in problems(keyword="bars", state="AZ", zips=["85003"])[""]


def test_an_operator_may_set_the_defaults__PL_1() -> None:
    configured = places_params(PlacesDefaults(pages=5, batch_size=250))
    job = configured(keyword=" bars ", state="az")
    assert isinstance(job, PlacesJob)
    assert (job.pages, job.batch_size, job.state) == (5, 250, "AZ")
    schema = configured.model_json_schema()
    assert (schema["title"], schema["properties"]["pages"]["default"]) == ("PlacesJob", 5)
    assert schema["properties"]["pages"]["maximum"] == 10
    with pytest.raises(ValidationError):
        PlacesDefaults(pages=11)
    with pytest.raises(ValidationError):
        configured(keyword="bars", state="AZ", pages=11)


def test_every_field_is_described_for_the_api() -> None:
    described = PlacesJob.model_json_schema()["properties"]
    assert [name for name, field in described.items() if "description" not in str(field)] == []


def test_a_job_survives_the_ledger() -> None:
    job = PlacesJob(keyword="bars", zips=("02139",), max_credits=0, concurrency=7)
    assert PlacesJob.model_validate_json(job.model_dump_json()) == job


def test_the_zips_of_a_job_are_those_of_its_state_or_its_own__PL_4() -> None:
    assert list(zip_codes(PlacesJob(keyword="bars", state="AZ"), ZIPS)) == ["85002", "85003"]
    assert list(zip_codes(PlacesJob(keyword="bars", state="AZ", po_boxes=True), ZIPS)) == ["85001", "85002", "85003"]
    assert list(zip_codes(PlacesJob(keyword="bars", zips=("85001", "02139")), ZIPS)) == ["85001", "02139"]


@pytest.mark.parametrize(
    "job",
    [
        PlacesJob(keyword="bars", state="MA"),
        PlacesJob(keyword="bars", zips=("85009", "85001")),
        PlacesJob(keyword="bars", state="AE", po_boxes=True),
    ],
)
def test_zips_in_the_reference_data_pass__PL_1(job: PlacesJob) -> None:
    check(job, ZIPS)


@pytest.mark.parametrize(
    ("job", "field", "told"),
    [
        (
            PlacesJob(keyword="bars", state="AX"),
            "state",
            "AX is not a state of the ZIP reference data; did you mean AE or AZ?",
        ),
        (PlacesJob(keyword="bars", state="ZA"), "state", "did you mean AZ?"),
        (PlacesJob(keyword="bars", state="QQ"), "state", "use one of AE, AZ, MA"),
        (PlacesJob(keyword="bars", state="AE"), "state", "set po_boxes"),
        (PlacesJob(keyword="bars", zips=("85003", "00000")), "zips", "not in the ZIP reference data: '00000'"),
    ],
)
def test_zips_missing_in_the_reference_data_are_refused_with_a_remedy__PL_1(
    job: PlacesJob, field: str, told: str
) -> None:
    with pytest.raises(Rejected) as caught:
        check(job, ZIPS)
    [error] = caught.value.fields
    assert error.field == field
    assert told in error.message
