"""The price of a job before it runs."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forager.extract.serper import package_for
from forager.pipelines.places.estimate import Density, Pages, PlacesPlan, Terms, estimate
from forager.pipelines.places.job import PlacesJob
from forager.pipelines.places.zips import Zip, ZipTable


def table(count: int) -> ZipTable:
    return ZipTable(Zip(f"{number:05}", "AZ") for number in range(1, count + 1))


def plan_for(count: int, *, density: Density | None = None, terms: Terms | None = None, **asked: object) -> PlacesPlan:
    job = PlacesJob.model_validate({"keyword": "bars", "state": "AZ", **asked})
    return estimate(job, table(count), terms or Terms(), density)


def test_without_history_sixty_percent_of_pages_are_full__PL_5() -> None:
    plan = plan_for(100, pages=3)
    assert (plan.queries, plan.worst_credits, plan.expected_credits) == (300, 300, 196)
    assert plan.zips_with_history == 0


def test_a_known_keyword_ends_where_it_ended_before__PL_5() -> None:
    seen = {"00001": Pages(full=0, short=1), "00002": Pages(full=1, short=1), "00003": Pages(full=3, short=0)}
    plan = plan_for(3, pages=3, density=Density(same_keyword=seen))
    assert plan.expected_credits == 1 + 2 + 3
    assert plan.zips_with_history == 3


def test_the_same_job_twice_in_the_history_gives_the_same_estimate__PL_5() -> None:
    once = plan_for(1, pages=5, density=Density(same_keyword={"00001": Pages(2, 1)}))
    twice = plan_for(1, pages=5, density=Density(same_keyword={"00001": Pages(4, 2)}))
    assert once.expected_credits == twice.expected_credits == 3


def test_the_own_keyword_counts_before_other_keywords_and_those_before_the_prior__PL_5() -> None:
    full, none = Pages(3, 0), Pages(0, 3)
    density = Density(same_keyword={"00001": full}, any_keyword={"00001": none, "00002": none})
    assert [round(density.reach(zip_code, 2), 2) for zip_code in ("00001", "00002", "00003")] == [1.0, 0.0, 0.6]


def test_an_empty_history_of_a_zip_is_no_history__PL_5() -> None:
    assert Density(any_keyword={"00001": Pages(0, 0)}).reach("00001", 2) == 0.6


def test_a_budget_caps_what_is_spent_and_is_named__PL_5() -> None:
    plan = plan_for(100, pages=3, max_credits=120)
    assert (plan.queries, plan.worst_credits, plan.expected_credits, plan.binds) == (300, 120, 120, "max_credits")


def test_a_budget_that_is_only_reached_at_worst_does_not_bind__PL_5() -> None:
    plan = plan_for(100, pages=3, max_credits=200)
    assert (plan.worst_credits, plan.expected_credits) == (200, 196)
    assert plan.binds != "max_credits"


def test_a_budget_of_nothing_spends_nothing__PL_5() -> None:
    plan = plan_for(100, max_credits=0)
    assert (plan.worst_credits, plan.expected_credits, plan.expected_seconds, plan.worst_usd) == (0, 0, 0.0, Decimal(0))


def test_money_is_the_price_of_the_package_that_allows_the_rate__PL_5() -> None:
    plan = plan_for(1000, pages=1)
    assert (plan.package, plan.expected_usd) == ("Ultimate", Decimal("0.30"))
    slower = plan_for(1000, pages=1, terms=Terms(rate=50))
    assert (slower.package, slower.expected_usd) == ("Starter", Decimal("1.00"))


def test_money_is_the_operators_price_if_one_is_set__PL_5() -> None:
    plan = plan_for(1000, pages=1, terms=Terms(price_per_1000=Decimal("0.90")))
    assert (plan.package, plan.worst_usd) == (None, Decimal("0.90"))
    assert plan_for(1000, pages=1, terms=Terms(price_per_1000=Decimal(0))).worst_usd == 0


@pytest.mark.parametrize(("rate", "name"), [(1, "Starter"), (51, "Standard"), (300, "Ultimate"), (900, "Ultimate")])
def test_a_package_is_the_smallest_that_is_fast_enough__PL_5(rate: int, name: str) -> None:
    assert package_for(rate).name == name


def test_time_is_the_physical_bound_where_the_lane_is_full__PL_17() -> None:
    plan = plan_for(308, pages=4, density=Density(prior=1.0))
    assert plan.expected_seconds == pytest.approx(1232 / 300 + 1.0, abs=0.05)
    assert plan.binds == "lane_rate"


def test_time_is_the_chain_of_pages_for_few_zips__PL_5() -> None:
    plan = plan_for(3, pages=10, density=Density(prior=1.0))
    assert plan.worst_seconds == pytest.approx(10.0, abs=0.05)
    assert plan.binds == "latency"


def test_time_is_the_jobs_concurrency_where_that_is_low__PL_5() -> None:
    plan = plan_for(1000, pages=1, concurrency=20)
    assert plan.expected_seconds == pytest.approx(1000 / 20 + 1.0, abs=0.05)
    assert plan.binds == "concurrency"


def test_a_slow_upstream_is_limited_by_what_fits_in_flight__PL_5() -> None:
    plan = plan_for(3000, pages=1, terms=Terms(latency=10.0))
    assert plan.expected_seconds == pytest.approx(3000 / 100 + 10.0, abs=0.05)
    assert plan.binds == "concurrency"


def test_the_example_of_the_api_is_a_true_plan() -> None:
    [example] = PlacesPlan.model_json_schema()["examples"]
    assert plan_for(305, pages=3) == PlacesPlan.model_validate(example)


@given(
    st.integers(1, 60),
    st.integers(1, 10),
    st.none() | st.integers(0, 400),
    st.dictionaries(st.integers(1, 60), st.builds(Pages, st.integers(0, 30), st.integers(0, 9))),
    st.booleans(),
)
def test_expected_never_exceeds_worst_nor_worst_the_budget__PL_5(
    count: int, pages: int, budget: int | None, seen: dict[int, Pages], same: bool
) -> None:
    recorded = {f"{number:05}": told for number, told in seen.items()}
    density = Density(same_keyword=recorded) if same else Density(any_keyword=recorded)
    plan = plan_for(count, pages=pages, max_credits=budget, density=density)
    least = min(count, plan.queries if budget is None else budget)
    most = min(plan.queries, plan.queries if budget is None else budget)
    assert least <= plan.expected_credits <= plan.worst_credits == most
    assert plan.expected_seconds <= plan.worst_seconds
    assert PlacesPlan.model_validate_json(plan.model_dump_json()) == plan
