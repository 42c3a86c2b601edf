"""Every name is read as written, and the order of sources holds."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from forager.app.config import declared_settings, load_settings, new_settings
from forager.core.errors import Rejected
from forager.pipelines.places.settings import PlacesSettings
from forager.pipelines.reviews.settings import ReviewsSettings
from tests.support.settings import Load

# field → (the seed's name, a value as text, the value that it becomes)
SEED_NAMES: dict[str, tuple[str, str, Any]] = {
    "port": ("SCRAPER_PORT", "8105", 8105),
    "service_key": ("SCRAPER_SERVICE_KEY", "k1", SecretStr("k1")),
    "log_level": ("SCRAPER_LOG_LEVEL", "debug", "DEBUG"),
    "backend_api_url": ("SCRAPER_BACKEND_API_URL", "https://api.example/api/v1", "https://api.example/api/v1"),
    "backend_service_key": ("SCRAPER_BACKEND_SERVICE_KEY", "k2", SecretStr("k2")),
    "webhook_secret": ("SCRAPER_WEBHOOK_SECRET", "k3", SecretStr("k3")),
    "default_webhook_url": ("SCRAPER_DEFAULT_WEBHOOK_URL", "https://h.example/x", SecretStr("https://h.example/x")),
    "browser_pool_size": ("SCRAPER_BROWSER_POOL_SIZE", "6", 6),
    "browser_pool_max": ("SCRAPER_BROWSER_POOL_MAX", "21", 21),
    "browser_page_limit": ("SCRAPER_BROWSER_PAGE_LIMIT", "101", 101),
    "navigation_timeout_ms": ("SCRAPER_NAVIGATION_TIMEOUT_MS", "30001", 30001),
    "max_queue_depth": ("SCRAPER_MAX_QUEUE_DEPTH", "501", 501),
    "task_timeout_seconds": ("SCRAPER_TASK_TIMEOUT_SECONDS", "61", 61),
    "rate_limit_tokens": ("SCRAPER_RATE_LIMIT_TOKENS", "3", 3),
    "rate_limit_interval_seconds": ("SCRAPER_RATE_LIMIT_INTERVAL_SECONDS", "11", 11),
    "cb_window_size": ("SCRAPER_CB_WINDOW_SIZE", "12", 12),
    "cb_failure_threshold": ("SCRAPER_CB_FAILURE_THRESHOLD", "6", 6),
    "cb_cooldown_seconds": ("SCRAPER_CB_COOLDOWN_SECONDS", "121", 121),
    "proxy_endpoints": (
        "SCRAPER_PROXY_ENDPOINTS",
        "http://a:1, http://b:2",
        (SecretStr("http://a:1"), SecretStr("http://b:2")),
    ),
    "proxy_health_check_interval_seconds": ("SCRAPER_PROXY_HEALTH_CHECK_INTERVAL_SECONDS", "61", 61),
    "proxy_domain_cooldown_seconds": ("SCRAPER_PROXY_DOMAIN_COOLDOWN_SECONDS", "31", 31),
    "credential_cache_ttl_seconds": ("SCRAPER_CREDENTIAL_CACHE_TTL_SECONDS", "301", 301),
    "credential_max_retries": ("SCRAPER_CREDENTIAL_MAX_RETRIES", "4", 4),
    "shutdown_seconds": ("SCRAPER_GRACEFUL_SHUTDOWN_SECONDS", "31", 31),
    "domain_policies_path": ("SCRAPER_DOMAIN_POLICIES_PATH", "/p.yaml", Path("/p.yaml")),
    "serper_api_key": ("SERPER_API_KEY", "k4", SecretStr("k4")),
    "serper_timeout_seconds": ("SERPER_TIMEOUT_SECONDS", "12.5", 12.5),
    "default_batch_size": ("DEFAULT_BATCH_SIZE", "50", 50),
    "default_pages": ("DEFAULT_PAGES", "4", 4),
    "max_retries_per_query": ("MAX_RETRIES_PER_QUERY", "0", 0),
    "retry_delay_seconds": ("RETRY_DELAY_SECONDS", "0.5", 0.5),
    "google_application_credentials": ("GOOGLE_APPLICATION_CREDENTIALS", "/g.json", Path("/g.json")),
    "bigquery_project_id": ("BIGQUERY_PROJECT_ID", "project", "project"),
    "prefect_api_url": ("PREFECT_API_URL", "http://127.0.0.1:4200/api", "http://127.0.0.1:4200/api"),
    "google_requests_per_second": ("GOOGLE_REQUESTS_PER_SECOND", "8", 8),
    "ratelimit": ("RATELIMIT_BURST", "9", {"BURST": "9"}),
    "apify_token": ("APIFY_TOKEN", "k5", SecretStr("k5")),
}


# --- defaults and names


def test_without_any_source_the_defaults_hold(load: Load, tmp_path: Path) -> None:
    settings = load()

    assert (settings.host, settings.port, settings.service_key) == ("127.0.0.1", 8001, None)
    assert settings.home == tmp_path / ".forager"
    assert (settings.lease_seconds, settings.shutdown_seconds, settings.capacity) == (30, 30, 1000)
    places = settings.of(PlacesSettings)
    assert (places.serper_rate, places.serper_base_url) == (300, "https://google.serper.dev")


def test_the_defaults_of_a_places_job_are_the_seeds__PL_1__PL_8(load: Load) -> None:
    settings = load().of(PlacesSettings)

    assert (settings.default_batch_size, settings.default_pages, settings.serper_timeout_seconds) == (100, 3, 30)
    assert (settings.max_retries_per_query, settings.retry_delay_seconds) == (3, 5)


def test_the_seed_of_scrape_has_twenty_five_settings_with_its_defaults__SC_0(load: Load) -> None:
    scrape = {
        each.name.field: each.default for each in declared_settings() if (each.name.seed or "").startswith("SCRAPER_")
    }

    assert len(scrape) == 25
    numbers = {field: default for field, default in scrape.items() if default and default.isdigit()}
    assert numbers == {
        "port": "8001",
        "browser_pool_size": "5",
        "browser_pool_max": "20",
        "browser_page_limit": "100",
        "navigation_timeout_ms": "30000",
        "max_queue_depth": "500",
        "task_timeout_seconds": "60",
        "rate_limit_tokens": "2",
        "rate_limit_interval_seconds": "10",
        "cb_window_size": "10",
        "cb_failure_threshold": "5",
        "cb_cooldown_seconds": "120",
        "proxy_health_check_interval_seconds": "60",
        "proxy_domain_cooldown_seconds": "30",
        "credential_cache_ttl_seconds": "300",
        "credential_max_retries": "3",
        "shutdown_seconds": "30",
    }
    assert scrape["log_level"] == "INFO"


def test_all_scrape_names_are_read_in_one_environment__SC_0(load: Load) -> None:
    scrape = {field: case for field, case in SEED_NAMES.items() if case[0].startswith("SCRAPER_")}

    settings = load(env={seed: text for seed, text, _ in scrape.values()})

    assert len(scrape) == 25
    assert {field: getattr(settings, field) for field in scrape} == {field: case[2] for field, case in scrape.items()}


@pytest.mark.parametrize("source", ["env", "dotenv"])
@pytest.mark.parametrize("field", SEED_NAMES)
def test_a_seeds_name_is_read_as_written(load: Load, field: str, source: str) -> None:
    seed, text, value = SEED_NAMES[field]

    settings = load(env={seed: text}) if source == "env" else load(dotenv=f"{seed}={text}\n")

    assert getattr(settings, field) == value


def test_the_table_of_seed_names_above_is_complete() -> None:
    assert {each.name.field for each in declared_settings() if each.name.seed} == set(SEED_NAMES)


@pytest.mark.parametrize("field", SEED_NAMES)
def test_every_setting_is_read_as_forager_too(load: Load, field: str) -> None:
    _, text, value = SEED_NAMES[field]
    variable = f"FORAGER_{field.upper()}" + ("_BURST" if field == "ratelimit" else "")

    assert getattr(load(env={variable: text}), field) == value


def test_lists_paths_and_money_are_read(load: Load, tmp_path: Path) -> None:
    settings = load(
        env={
            "FORAGER_EGRESS_ALLOW": "10.0.0.0/8, sandbox:8080,",
            "FORAGER_ZIP_TABLE": "zips.csv",
            "FORAGER_SERPER_PRICE_PER_1000": "0.30",
            "FORAGER_SERPER_BASE_URL": "http://127.0.0.1:9000/",
        }
    )

    assert settings.egress_allow == ("10.0.0.0/8", "sandbox:8080")
    assert settings.of(PlacesSettings).zip_table == tmp_path / "zips.csv"
    assert settings.of(PlacesSettings).serper_price_per_1000 == Decimal("0.30")
    assert settings.of(PlacesSettings).serper_base_url == "http://127.0.0.1:9000"


def test_a_list_and_a_table_are_read_from_toml(load: Load) -> None:
    settings = load(toml='egress_allow = ["10.0.0.0/8"]\nserper_price_per_1000 = 0.3\n[ratelimit]\nBURST = 9\n')

    assert settings.egress_allow == ("10.0.0.0/8",)
    assert settings.of(PlacesSettings).serper_price_per_1000 == Decimal("0.3")
    assert settings.of(ReviewsSettings).ratelimit == {"BURST": "9"}


# --- order of sources

LEVELS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("flag", {"overrides": {"port": 9001}}),
    ("FORAGER_X", {"env": {"FORAGER_PORT": "9002"}}),
    ("seed's name", {"env": {"SCRAPER_PORT": "9003"}}),
    (".env", {"dotenv": "SCRAPER_PORT=9004\n"}),
    ("forager.toml", {"toml": "port = 9005\n"}),
)
PAIRS = [(higher, lower) for higher in range(len(LEVELS)) for lower in range(higher + 1, len(LEVELS))]


@pytest.mark.parametrize(("higher", "lower"), PAIRS)
def test_a_higher_level_wins_over_a_lower_one(load: Load, higher: int, lower: int) -> None:
    sources: dict[str, Any] = {}
    for _, level in (LEVELS[lower], LEVELS[higher]):
        for kind, value in level.items():
            sources[kind] = {**sources.get(kind, {}), **value} if isinstance(value, dict) else value

    assert load(**sources).port == 9001 + higher


@pytest.mark.parametrize(("name", "sources"), LEVELS)
def test_every_level_wins_over_the_default(load: Load, name: str, sources: dict[str, Any]) -> None:
    assert load(**sources).port != 8001, name


def test_both_spellings_are_read_from_dotenv(load: Load) -> None:
    settings = load(dotenv="export FORAGER_PORT='9000'\nSERPER_API_KEY=\"a$b # c\"\nPOSTGRES_PASSWORD=x\n# note\n")

    assert settings.port == 9000
    assert settings.of(PlacesSettings).serper_api_key == SecretStr("a$b # c")


def test_an_empty_value_counts_as_not_set(load: Load) -> None:
    assert (
        load(env={"FORAGER_PORT": " ", "SCRAPER_PORT": ""}, dotenv="FORAGER_PORT=\n", toml="port = 9000").port == 9000
    )


def test_a_flag_that_was_not_given_changes_nothing(load: Load) -> None:
    assert load(overrides={"port": None}, env={"FORAGER_PORT": "9000"}).port == 9000


def test_without_arguments_the_process_own_environment_and_folder_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FORAGER_PORT", "9000")
    (tmp_path / ".env").write_text("FORAGER_HOST=::1\n")

    settings = load_settings()

    assert (settings.port, settings.host, settings.home) == (9000, "::1", tmp_path / ".forager")


def test_settings_built_directly_read_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", "1")
    monkeypatch.setenv("FORAGER_PORT", "2")

    assert new_settings().port == 8001


def test_settings_do_not_change_after_loading(load: Load) -> None:
    with pytest.raises(ValidationError):
        load().port = 1  # type: ignore[misc]


def test_a_zip_table_is_a_file_or_a_table_of_bigquery__PL_4(load: Load, tmp_path: Path) -> None:
    for text in ("bigquery:reference.geo_zip_all", "bigquery:my-project.reference.geo_zip_all"):
        assert load(env={"FORAGER_ZIP_TABLE": text}).of(PlacesSettings).zip_table == text
    with pytest.raises(Rejected, match=r"bigquery:reference\.geo_zip_all"):
        load(env={"FORAGER_ZIP_TABLE": "bigquery:reference.geo`zip"})


def test_a_relative_policy_file_is_resolved_once_when_the_settings_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load_settings(env={"SCRAPER_DOMAIN_POLICIES_PATH": "rules.yml"}, cwd=tmp_path)
    monkeypatch.chdir("/")
    assert loaded.domain_policies_path == tmp_path / "rules.yml"


def test_the_project_folder_is_found_from_its_sub_folders(tmp_path: Path) -> None:
    below = tmp_path / "project" / "a" / "b"
    below.mkdir(parents=True)
    (tmp_path / "project" / "forager.toml").write_text("serper_rate = 77\n")

    loaded = load_settings(env={"FORAGER_DOMAIN_POLICIES_PATH": "rules.yml"}, cwd=below)

    assert loaded.home == tmp_path / "project" / ".forager"
    assert loaded.model_dump()["serper_rate"] == 77
    assert loaded.domain_policies_path == below / "rules.yml"


def test_a_store_above_is_found_and_a_named_home_comes_before_it(tmp_path: Path) -> None:
    below = tmp_path / "project" / "a"
    below.mkdir(parents=True)
    (tmp_path / "project" / ".forager").mkdir()
    assert load_settings(env={}, cwd=below).home == below / ".forager", "a folder without a store is none"
    (tmp_path / "project" / ".forager" / "ledger.db").touch()

    assert load_settings(env={}, cwd=below).home == tmp_path / "project" / ".forager"
    assert load_settings(env={"FORAGER_HOME": "own"}, cwd=below).home == below / "own"
    assert load_settings({"home": below / "flag"}, env={}, cwd=below).home == below / "flag"
