"""A mistake in a setting is named as it was written, with its remedy; each limit holds at it and past it."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest

import forager
from forager.app.config import declared_settings
from tests.support.settings import Load, refusal


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


def test_a_limit_is_named(load: Load) -> None:
    assert "must be at least 1." in refusal(load, env={"FORAGER_BLOB_GRACE_HOURS": "0"}).message
    assert "must be at most 65,535." in refusal(load, env={"FORAGER_PORT": "99999"}).message


def test_a_signal_that_does_not_exist_is_refused_and_named(load: Load) -> None:
    error = refusal(load, env={"FORAGER_OTEL_SIGNALS": "traces,metric"})
    assert "unknown signal 'metric'; choose from traces, metrics, logs." in error.message
    assert load(env={"FORAGER_OTEL_SIGNALS": "logs, traces"}).otel_signals == ("logs", "traces")


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
    others = used - {each.name.variable for each in declared_settings()}

    assert "FORAGER_DATABASE_URL" in used
    assert load(env=dict.fromkeys(others, "1")) == load()


def test_all_mistakes_are_reported_at_once(load: Load) -> None:
    error = refusal(load, env={"FORAGER_PORT": "x", "FORAGER_PROT": "1", "DEFAULT_PAGES": "11"})

    assert {each.field for each in error.fields} == {"FORAGER_PORT", "FORAGER_PROT", "DEFAULT_PAGES"}
    assert error.message.startswith("3 settings are wrong:")


KEPT = ("jobs", "messages", "rejected", "attempts", "changes", "records")
LIMITS = {  # field: (least, beyond it, most, beyond it)
    "kafka_session_seconds": ("1", "0.9", "3600", "3601"),
    "google_shared_requests_per_minute": ("1", "0", "1000000", "1000001"),
    "clickhouse_timeout_seconds": ("0.001", "0", "3600", "3601"),
    "postgres_sink_timeout_seconds": ("0.001", "0", "3600", "3601"),
    "elasticsearch_timeout_seconds": ("0.001", "0", "600", "601"),
    "google_requests_per_second": ("0.001", "0", "10000", "10001"),
    "google_timeout_seconds": ("0.001", "0", "600", "601"),
    "bigquery_timeout_seconds": ("0.001", "0", "3600", "3601"),
    "kafka_partitions": ("0", "-1", "10000", "10001"),
    "kafka_timeout_seconds": ("0.001", "0", "600", "601"),
    "s3_timeout_seconds": ("0.001", "0", "600", "601"),
    "max_waiting_review_jobs": ("1", "0", "10000000", "10000001"),
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
    **{f"keep_{what}_days": ("0", "-1", "36500", "36501") for what in KEPT},
    "shifts": ("1", "0", "10000", "10001"),
    "shift_seconds": ("0.001", "0", "86400", "86401"),
    "shift_idle_seconds": ("0.001", "0", "3600", "3601"),
    "readers": ("0", "-1", "64", "65"),
    "blob_days": ("0.001", "0", "36500", "36501"),
    "blob_grace_hours": ("1", "0.99", "8760", "8761"),
    "record_days": ("0", "-0.1", "36500", "36501"),
    "otel_sample": ("0", "-0.1", "1", "1.1"),
    "otel_interval_seconds": ("1", "0.9", "3600", "3601"),
    "product_timeout_seconds": ("0.001", "0", "600", "601"),
    "product_retry_delay_seconds": ("0.001", "0", "3600", "3601"),
    "product_images_max": ("0", "-1", "20", "21"),
    "product_shadow_share": ("0", "-0.1", "1", "1.1"),
    "product_image_max_bytes": ("1024", "1023", "104857600", "104857601"),
    "apify_max_charge_usd": ("0.01", "0.009", "1000", "1001"),
    "apify_usd_per_1000_listings": ("0", "-0.01", "1000", "1001"),
    "apify_timeout_seconds": ("0.001", "0", "600", "601"),
    "apify_poll_seconds": ("0.001", "0", "600", "601"),
    "apify_cost_delay_seconds": ("0", "-1", "600", "601"),
    "listings_maintenance_hour": ("0", "-1", "23", "24"),
    "listing_timeout_seconds": ("0.001", "0", "600", "601"),
    "listing_match_street": ("0", "-1", "100", "101"),
    "listing_match_metres": ("0", "-1", "150", "151"),
    "listing_match_rent": ("0", "-1", "10", "11"),
    "listing_match_beds": ("0", "-1", "100", "101"),
    "listing_match_baths": ("0", "-1", "100", "101"),
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
    "serper_max_credits_hour": ("0", "-1", "1000000000000", None),
    "serper_max_credits_day": ("0", "-1", "1000000000000", None),
    "serper_max_credits_month": ("0", "-1", "1000000000000", None),
    "serper_price_per_1000": ("0", "-0.01", "1000000", "1000001"),
    "default_batch_size": ("1", "0", "10000", "10001"),
    "default_pages": ("1", "0", "10", "11"),
    "serper_map_credits": ("1", "0", "100", "101"),
    "listings_split_runs": ("0", "-1", "100", "101"),
    "max_retries_per_query": ("0", "-1", "100", "101"),
    "retry_delay_seconds": ("0", "-0.1", "86400", "86401"),
    "proxy_health_check_interval_seconds": ("1", "0.9", "86400", "86401"),
    "proxy_domain_cooldown_seconds": ("0", "-0.1", "86400", "86401"),
    "via_price": ("0", "-0.01", "100", "101"),
    "via_max_usd_day": ("0", "-0.01", "1000000", "1000001"),
    "via_max_usd_month": ("0", "-0.01", "1000000", "1000001"),
    "via_timeout_seconds": ("0.001", "0", "300", "301"),
    "llm_price_in": ("0", "-0.01", "10000", "10001"),
    "llm_price_out": ("0", "-0.01", "10000", "10001"),
    "llm_max_usd_day": ("0", "-0.01", "1000000", "1000001"),
    "llm_max_usd_month": ("0", "-0.01", "1000000", "1000001"),
    "llm_page_bytes": ("1000", "999", "400000", "400001"),
    "llm_answer_tokens": ("50", "49", "32000", "32001"),
    "llm_timeout_seconds": ("0.001", "0", "600", "601"),
    "llm_rate": ("1", "0", "1000", "1001"),
    "llm_concurrency": ("1", "0", "1000", "1001"),
    "agent_max_pages": ("0", "-1", "1000000000", "1000000001"),
    "agent_max_credits": ("0", "-1", "1000000000", "1000000001"),
    "agent_max_usd": ("0", "-0.1", "1000000", "1000001"),
    "agent_max_minutes": ("0", "-0.1", "1000000", "1000001"),
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
    assert {each.name.field for each in declared_settings() if each.limits} == set(LIMITS)


@pytest.mark.parametrize("field", LIMITS)
@pytest.mark.parametrize("text", ["nan", "inf", "1e999", "ten", "-5"])
def test_an_invalid_number_is_refused(load: Load, field: str, text: str) -> None:
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
