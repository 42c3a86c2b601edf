"""The pipeline as a value: its plan, its limits, its parts."""

from forager.core.pipeline import JobLimits, Lane
from forager.core.task import Plan
from forager.pipelines.places.job import AreaQuery, PlacesDefaults, PlacesJob, Query, places_params
from forager.pipelines.places.pipeline import build, places, plan
from forager.pipelines.places.records import Place, Sighting
from forager.pipelines.places.steps import Serper
from forager.pipelines.places.zips import Zip, ZipTable

ZIPS = ZipTable([Zip("02139", "MA"), Zip("85001", "AZ", type="PO BOX"), Zip("85003", "AZ"), Zip("85004", "AZ")])


def planned(job: PlacesJob) -> list[Plan]:
    return list(plan(job, ZIPS))


def test_a_job_is_one_query_per_zip_and_page__PL_3() -> None:
    tasks = [entry.task for entry in planned(PlacesJob(keyword="bars", state="AZ", pages=2))]
    assert [task.key() for task in tasks] == ["85003/1", "85003/2", "85004/1", "85004/2"]
    assert all(isinstance(task, Query) and task.lane() == "serper" for task in tasks)
    assert tasks[0] == Query(keyword="bars", zip="85003", page=1, pages=2, state="AZ")
    assert tasks[0].text == "85003 bars"


def test_a_page_waits_for_the_one_before_and_is_ranked_by_its_number__PL_10() -> None:
    told = [(entry.rank, entry.after) for entry in planned(PlacesJob(keyword="bars", zips=("02139",), pages=3))]
    assert told == [(1, None), (2, "02139/1"), (3, "02139/2")]


def test_a_page_waits_for_the_previous_page_of_its_query__PL_10() -> None:
    for entry in planned(PlacesJob(keyword="bars", state="AZ", pages=10)):
        assert isinstance(entry.task, Query)
        assert entry.after == entry.task.previous()


def test_a_query_of_given_zips_has_its_state__PL_13() -> None:
    tasks = [entry.task for entry in planned(PlacesJob(keyword="bars", zips=("85001", "02139"), pages=1))]
    assert [task.state for task in tasks if isinstance(task, Query)] == ["AZ", "MA"]


def test_planning_again_gives_the_same_tasks__PL_3() -> None:
    job = PlacesJob(keyword="bars", state="AZ")
    assert planned(job) == planned(job)


def test_a_query_survives_the_ledger() -> None:
    query = Query(keyword="bars", zip="02139", page=2, pages=3, state="MA")
    assert Query.model_validate_json(query.model_dump_json()) == query


def test_the_pipeline_declares_what_the_engine_needs__PL_8() -> None:
    assert (places.name, places.params, places.needs, places.records) == (
        "places",
        PlacesJob,
        ("zips",),
        (Place, Sighting),
    )
    [lane] = places.lanes
    assert (lane.name, lane.rate, lane.per, lane.retry.times, lane.retry.first) == ("serper", 300, 1.0, 3, 5.0)
    assert [(each.task, each.price) for each in places.steps] == [(Query, 1), (AreaQuery, 3)]


def test_the_limits_of_a_job_reach_the_ledger__PL_11() -> None:
    job = PlacesJob(keyword="bars", state="AZ", max_credits=50, batch_size=7, concurrency=9)
    assert places.limits(job) == JobLimits(max_cost=50, batch_size=7, concurrency=9)
    assert places.dry_run(job) is False
    assert places.dry_run(PlacesJob(keyword="bars", state="AZ", dry_run=True)) is True


def test_upstream_lane_and_defaults_come_from_outside__PL_8() -> None:
    params = places_params(PlacesDefaults(pages=1))
    made = build(Serper(base_url="http://127.0.0.1:9", timeout=90.0), lane=Lane("serper", rate=50), params=params)
    assert made.params is params
    assert made.lanes[0].rate == 50
    assert made.steps[0].timeout > 90.0
