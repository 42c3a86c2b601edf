"""Settings: every name is read as written, the order of sources holds, and a mistake is named with its remedy."""

import ast
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

import forager
from forager.core.errors import Rejected
from forager.settings import LATER, Settings, declared, load_settings
from scripts import settings_doc

Load = Callable[..., Settings]

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


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Loads from an empty environment and folder, plus what is given."""

    def loaded(
        overrides: Mapping[str, object] | None = None,
        env: Mapping[str, str] | None = None,
        dotenv: str | None = None,
        toml: str | None = None,
    ) -> Settings:
        for name, text in ((".env", dotenv), ("forager.toml", toml)):
            if text is not None:
                (tmp_path / name).write_text(text, "utf-8")
        return load_settings(overrides, env or {}, tmp_path)

    return loaded


def refusal(load: Load, **sources: Any) -> Rejected:
    with pytest.raises(Rejected) as caught:
        load(**sources)
    return caught.value


# --- defaults and names


def test_without_any_source_the_defaults_hold(load: Load, tmp_path: Path) -> None:
    settings = load()

    assert (settings.host, settings.port, settings.service_key) == ("127.0.0.1", 8001, None)
    assert settings.home == tmp_path / ".forager"
    assert (settings.lease_seconds, settings.shutdown_seconds, settings.capacity) == (30, 30, 1000)
    assert (settings.serper_rate, settings.serper_base_url) == (300, "https://google.serper.dev")


def test_the_defaults_of_a_places_job_are_the_seeds__PL_1__PL_8(load: Load) -> None:
    settings = load()

    assert (settings.default_batch_size, settings.default_pages, settings.serper_timeout_seconds) == (100, 3, 30)
    assert (settings.max_retries_per_query, settings.retry_delay_seconds) == (3, 5)


def test_the_seed_of_scrape_has_twenty_five_settings_with_its_defaults__SC_0(load: Load) -> None:
    scrape = {each.name.field: each.default for each in declared() if (each.name.seed or "").startswith("SCRAPER_")}

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
    assert {each.name.field for each in declared() if each.name.seed} == set(SEED_NAMES)


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
    assert settings.zip_table == tmp_path / "zips.csv"
    assert settings.serper_price_per_1000 == Decimal("0.30")
    assert settings.serper_base_url == "http://127.0.0.1:9000"


def test_a_list_and_a_table_are_read_from_toml(load: Load) -> None:
    settings = load(toml='egress_allow = ["10.0.0.0/8"]\nserper_price_per_1000 = 0.3\n[ratelimit]\nBURST = 9\n')

    assert settings.egress_allow == ("10.0.0.0/8",)
    assert settings.serper_price_per_1000 == Decimal("0.3")
    assert settings.ratelimit == {"BURST": "9"}


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
    assert settings.serper_api_key == SecretStr("a$b # c")


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

    assert Settings().port == 8001


def test_settings_do_not_change_after_loading(load: Load) -> None:
    with pytest.raises(ValidationError):
        load().port = 1  # type: ignore[misc]


# --- mistakes


def test_two_spellings_that_differ_on_one_level_are_refused(load: Load) -> None:
    error = refusal(load, dotenv="FORAGER_PORT=9000\nSCRAPER_PORT=9001\n")

    assert [each.field for each in error.fields] == ["FORAGER_PORT"]
    assert "FORAGER_PORT and SCRAPER_PORT in .env" in error.message
    assert "Keep one" in error.message


def test_two_spellings_that_agree_are_accepted(load: Load) -> None:
    assert load(dotenv="FORAGER_PORT=9000\nSCRAPER_PORT=9000\n").port == 9000


def test_a_name_twice_in_dotenv_with_two_values_is_refused(load: Load) -> None:
    assert "more than once in .env" in refusal(load, dotenv="SCRAPER_PORT=9000\nSCRAPER_PORT=9001\n").message


@pytest.mark.parametrize(
    ("sources", "written"),
    [
        ({"env": {"FORAGER_PORT": "abc"}}, "FORAGER_PORT"),
        ({"env": {"SCRAPER_PORT": "abc"}}, "SCRAPER_PORT"),
        ({"dotenv": "SCRAPER_PORT=abc"}, "SCRAPER_PORT"),
        ({"toml": "port = 'abc'"}, "port"),
        ({"toml": "port = true"}, "port"),
        ({"toml": "port = [1]"}, "port"),
        ({"toml": "[port]\nx = 1"}, "port"),
        ({"overrides": {"port": "abc"}}, "--port"),
        ({"overrides": {"serper_rate": 0}}, "--serper-rate"),
        ({"toml": "ratelimit = 'abc'"}, "ratelimit"),
    ],
)
def test_a_bad_value_is_named_as_it_was_written_with_the_remedy(
    load: Load, sources: dict[str, Any], written: str
) -> None:
    error = refusal(load, **sources)

    assert [each.field for each in error.fields] == [written]
    assert "Correct it, or leave it unset" in error.message


def test_the_remedy_names_the_default(load: Load) -> None:
    assert "for the default, 8001" in refusal(load, env={"FORAGER_PORT": "abc"}).message


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("FORAGER_PROT", "FORAGER_PORT"),
        ("FORAGER_SERPER_RATES", "FORAGER_SERPER_RATE"),
        ("FORAGER_DATABSE_URL", "FORAGER_DATABASE_URL"),
        ("FORAGER_SCRAPER_PORT", "SCRAPER_PORT"),
        ("forager_port", "FORAGER_PORT"),
    ],
)
@pytest.mark.parametrize("source", ["env", "dotenv"])
def test_an_unknown_forager_name_is_refused_with_the_nearest_one(
    load: Load, wrong: str, meant: str, source: str
) -> None:
    error = refusal(load, **({"env": {wrong: "1"}} if source == "env" else {"dotenv": f"{wrong}=1"}))

    assert [each.field for each in error.fields] == [wrong]
    assert f"did you mean {meant}?" in error.message


def test_an_unknown_name_without_a_near_one_points_to_the_list(load: Load) -> None:
    error = refusal(load, env={"FORAGER_XYZZY": "1"})

    assert "did you mean" not in error.message
    assert "docs/settings.md" in error.message


def test_unknown_keys_of_toml_and_flags_are_refused(load: Load) -> None:
    error = refusal(load, toml="serper_rat = 1", overrides={"prot": 1})

    assert [each.field for each in error.fields] == ["--prot", "serper_rat"]
    assert "did you mean serper_rate?" in error.message


def test_names_of_other_programs_and_of_the_tests_are_left_alone(load: Load) -> None:
    env = {"PATH": "/bin", "PORT": "1", "FORAGER_TEST_POSTGRES": "x", "FORAGER_DATA": "x", "SCRAPER_OTHER": "x"}

    assert load(env=env) == load()


def test_no_variable_that_the_code_uses_itself_is_refused(load: Load) -> None:
    """Such as one that a parent process sets for its child, which then loads the settings."""
    used = set()
    for path in Path(forager.__file__).parent.rglob("*.py"):
        texts = (node.value for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Constant))
        used |= {text for text in texts if isinstance(text, str) and re.fullmatch(r"FORAGER_[A-Z0-9_]*[A-Z0-9]", text)}
    others = used - {each.name.variable for each in declared()}

    assert "FORAGER_DATABASE_URL" in used
    assert load(env=dict.fromkeys(others, "1")) == load()


def test_everything_that_is_wrong_is_told_at_once(load: Load) -> None:
    error = refusal(load, env={"FORAGER_PORT": "x", "FORAGER_PROT": "1", "DEFAULT_PAGES": "11"})

    assert {each.field for each in error.fields} == {"FORAGER_PORT", "FORAGER_PROT", "DEFAULT_PAGES"}
    assert error.message.startswith("3 settings are wrong:")


LIMITS = {  # field: (least, beyond it, most, beyond it)
    "browser_pool_size": ("0", "-1", "1000", "1001"),
    "browser_pool_max": ("1", "0", "1000", "1001"),
    "browser_page_limit": ("1", "0", "1000000", "1000001"),
    "browser_memory_mb": ("100", "99", "1000000", "1000001"),
    "navigation_timeout_ms": ("1", "0", "600000", "600001"),
    "max_queue_depth": ("0", "-1", "100000", "100001"),
    "task_timeout_seconds": ("0.001", "0", "3600", "3601"),
    "credential_cache_ttl_seconds": ("0", "-1", "86400", "86401"),
    "credential_max_retries": ("0", "-1", "10", "11"),
    "evidence_days": ("0", "-1", "3650", "3651"),
    "port": ("0", "-1", "65535", "65536"),
    "lease_seconds": ("1", "0.99", "3600", "3601"),
    "shutdown_seconds": ("0", "-1", "3600", "3601"),
    "capacity": ("1", "0", "100000", "100001"),
    "patience_hours": ("0.01", "0", "87600", "87601"),
    "rate_limit_tokens": ("0.001", "0", "100000", "100001"),
    "rate_limit_interval_seconds": ("0.001", "0", "86400", "86401"),
    "cb_window_size": ("1", "0", "1000", "1001"),
    "cb_failure_threshold": ("1", "0", "1000", "1001"),
    "cb_cooldown_seconds": ("0", "-1", "86400", "86401"),
    "serper_rate": ("1", "0", "100000", "100001"),
    "serper_burst": ("1", "0", "100000", "100001"),
    "serper_concurrency": ("1", "0", "100000", "100001"),
    "serper_timeout_seconds": ("0.001", "0", "600", "601"),
    "serper_max_credits_day": ("0", "-1", "1000000000000", None),
    "serper_max_credits_month": ("0", "-1", "1000000000000", None),
    "serper_price_per_1000": ("0", "-0.01", "1000000", "1000001"),
    "default_batch_size": ("1", "0", "10000", "10001"),
    "default_pages": ("1", "0", "10", "11"),
    "max_retries_per_query": ("0", "-1", "100", "101"),
    "retry_delay_seconds": ("0", "-0.1", "86400", "86401"),
    "proxy_health_check_interval_seconds": ("1", "0.9", "86400", "86401"),
    "proxy_domain_cooldown_seconds": ("0", "-0.1", "86400", "86401"),
}


@pytest.mark.parametrize("field", LIMITS)
def test_a_number_is_accepted_at_its_limits_and_refused_beyond(load: Load, field: str) -> None:
    least, too_little, most, too_much = LIMITS[field]
    variable = f"FORAGER_{field.upper()}"

    for accepted in (least, most):
        assert float(getattr(load(env={variable: accepted}), field)) == float(accepted)
    for refused in (too_little, too_much):
        if refused is not None:
            assert [each.field for each in refusal(load, env={variable: refused}).fields] == [variable]


def test_the_table_of_limits_above_is_complete() -> None:
    assert {each.name.field for each in declared() if each.limits and each.group != LATER} == set(LIMITS)


@pytest.mark.parametrize(
    "field", [*LIMITS, *(each.name.field for each in declared() if each.group == LATER and each.limits)]
)
@pytest.mark.parametrize("text", ["nan", "inf", "1e999", "ten", "-5"])
def test_a_number_that_is_none_is_refused(load: Load, field: str, text: str) -> None:
    assert refusal(load, env={f"FORAGER_{field.upper()}": text}).fields


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("FORAGER_LOG_LEVEL", "loud"),
        ("FORAGER_LOG_FORMAT", "xml"),
        ("FORAGER_HOST", "http://0.0.0.0"),
        ("FORAGER_HOST", "127.0.0.1:8001"),
        ("FORAGER_SERPER_BASE_URL", "google.serper.dev"),
        ("FORAGER_SERPER_BASE_URL", "ftp://google.serper.dev"),
        ("FORAGER_SERPER_BASE_URL", "https://host:port"),
        ("FORAGER_SERPER_BASE_URL", "https://host/?key=1"),
        ("FORAGER_DATABASE_URL", "mysql://host/db"),
        ("FORAGER_DATABASE_URL", "postgresql://host"),
        ("FORAGER_USER_AGENT", "a\r\nX-Evil: 1"),
        ("FORAGER_HOME", "~nobody-of-that-name/x"),
    ],
)
def test_text_that_cannot_be_meant_is_refused(load: Load, variable: str, text: str) -> None:
    assert [each.field for each in refusal(load, env={variable: text}).fields] == [variable]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "::1", "localhost", "my-host.internal"])
def test_hosts_are_names_or_addresses(load: Load, host: str) -> None:
    assert load(env={"FORAGER_HOST": host}).host == host


def test_files_that_cannot_be_read_are_named(load: Load, tmp_path: Path) -> None:
    assert "line 2 cannot be read" in " ".join(
        f"{each.field} {each.message}" for each in refusal(load, dotenv="A=1\n='\n").fields
    )
    assert "FORAGER_PORT=value" in refusal(load, dotenv="FORAGER_PORT\n").message
    (tmp_path / ".env").write_bytes(b"A=\xff\xfe\n")
    assert "not UTF-8" in refusal(load).message
    (tmp_path / ".env").unlink()
    assert "not valid TOML" in refusal(load, toml="port = = 1").message
    (tmp_path / "forager.toml").unlink()
    (tmp_path / "forager.toml").mkdir()
    assert "cannot be read" in refusal(load).message


# --- secrets

CANARY = "canary-5d41402abc4b2a76"


def secret_variables() -> list[str]:
    return [each.name.variable for each in declared() if each.name.hidden and each.name.field != "database_url"]


def test_the_settings_that_hold_secrets_are_known() -> None:
    expected = {"SERVICE_KEY", "SERPER_API_KEY", "BACKEND_SERVICE_KEY", "WEBHOOK_SECRET", "APIFY_TOKEN"}
    assert expected | {"DEFAULT_WEBHOOK_URL", "PROXY_ENDPOINTS", "SECRET_KEY"} == {
        name.removeprefix("FORAGER_") for name in secret_variables()
    }


def test_secrets_print_as_stars__S8(load: Load) -> None:
    hook = f"https://host/{CANARY}?t={CANARY}"
    urls = {"FORAGER_DATABASE_URL": f"postgresql://u:{CANARY}@host/db", "FORAGER_DEFAULT_WEBHOOK_URL": hook}

    settings = load(env=dict.fromkeys(secret_variables(), CANARY) | urls)

    assert CANARY not in f"{settings!r} {settings} {settings.model_dump_json(exclude={'database_url'})}"
    assert "service_key=SecretStr('***" in repr(settings)
    assert set(settings.secrets()) == {CANARY, hook}


def test_the_password_of_a_proxy_counts_as_a_secret_in_both_spellings(load: Load) -> None:
    address = "http://u:p%40ss@host:1"
    assert load(env={"FORAGER_PROXY_ENDPOINTS": address}).secrets() == (address, "p%40ss", "p@ss")


def test_the_password_of_a_url_counts_as_a_secret_in_both_spellings(load: Load) -> None:
    assert load(env={"FORAGER_DATABASE_URL": "postgresql://u:p%40ss@host/db"}).secrets() == ("p%40ss", "p@ss")


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("FORAGER_DATABASE_URL", f"mysql://u:{CANARY}@host/db"),
        ("FORAGER_SERPER_BASE_URL", f"https://u:{CANARY}@host"),
        ("FORAGER_DEFAULT_WEBHOOK_URL", f"https://u:{CANARY}@host/x"),
        ("FORAGER_DEFAULT_WEBHOOK_URL", f"ftp://host/{CANARY}"),
        ("FORAGER_DEFAULT_WEBHOOK_URL", f"https:// {CANARY}"),
    ],
)
def test_an_error_never_shows_a_secret__S8(load: Load, variable: str, text: str) -> None:
    error = refusal(load, env={variable: text})

    assert CANARY not in f"{error.message} {error.fields} {error.__context__!r}"


def test_differing_secrets_are_not_shown__S8(load: Load) -> None:
    error = refusal(load, dotenv=f"SERPER_API_KEY={CANARY}1\nFORAGER_SERPER_API_KEY={CANARY}2\n")

    assert CANARY not in f"{error.message} {error.fields}"


# --- documentation


def test_dotenv_example_lists_every_setting_with_its_default_and_nothing_else() -> None:
    listed = dict(re.findall(r"^#(FORAGER_[A-Z0-9_*]+)=(.*)$", settings_doc.EXAMPLE.read_text("utf-8"), re.MULTILINE))

    assert listed == {each.name.variable: each.default or "" for each in declared()}


def test_dotenv_example_names_every_alias() -> None:
    text = settings_doc.EXAMPLE.read_text("utf-8")

    assert set(re.findall(r"Also read as (\S+)\.$", text, re.MULTILINE)) == {
        each.name.seed for each in declared() if each.name.seed
    }


def test_dotenv_example_with_every_line_in_use_gives_the_defaults(load: Load) -> None:
    lines = re.findall(r"^#(FORAGER_[A-Z0-9_]+=.*)$", settings_doc.EXAMPLE.read_text("utf-8"), re.MULTILINE)

    assert load(dotenv="\n".join(lines)) == load(dotenv="")


def test_the_later_group_is_last() -> None:
    groups = list(dict.fromkeys(each.group for each in declared()))

    assert groups[-1] == LATER


def test_the_page_of_settings_is_up_to_date() -> None:
    stale = "is stale: run `make settings`"
    assert settings_doc.PAGE.read_text("utf-8") == settings_doc.render_page(), f"docs/settings.md {stale}"
    assert settings_doc.EXAMPLE.read_text("utf-8") == settings_doc.render_example(), f".env.example {stale}"
