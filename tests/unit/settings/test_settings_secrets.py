"""Secret settings are never shown."""

import pytest

from forager.app.config import declared_settings
from tests.support.settings import Load, refusal

CANARY = "canary-5d41402abc4b2a76"
DATABASES = {"database_url", "database_direct_url"}
"""Only the password in them is a secret."""


def secret_variables() -> list[str]:
    return [each.name.variable for each in declared_settings() if each.name.hidden and each.name.field not in DATABASES]


def test_the_settings_that_hold_secrets_are_known() -> None:
    expected = {
        "SERVICE_KEY",
        "SERPER_API_KEY",
        "LLM_API_KEY",
        "VIA_API_KEY",
        "VIA_URL",
        "BACKEND_SERVICE_KEY",
        "WEBHOOK_SECRET",
        "WEBHOOK_NEXT_SECRET",
        "APIFY_TOKEN",
        "KAFKA_PASSWORD",
        "S3_SECRET_KEY",
        "CLICKHOUSE_PASSWORD",
        "ELASTICSEARCH_PASSWORD",
        "POSTGRES_SINK_URL",
        "ELASTICSEARCH_API_KEY",
        "BROKER_URL",
        "OTEL_HEADERS",
    }
    assert expected | {"DEFAULT_WEBHOOK_URL", "PROXY_ENDPOINTS", "SECRET_KEY"} == {
        name.removeprefix("FORAGER_") for name in secret_variables()
    }


def test_secrets_print_as_stars__S8(load: Load) -> None:
    hook = f"https://host/{CANARY}?t={CANARY}"
    databases = {f"FORAGER_{name.upper()}": f"postgresql://u:{CANARY}@host/db" for name in DATABASES}
    sink = f"postgresql://u:{CANARY}@warehouse/db"
    urls = {**databases, "FORAGER_DEFAULT_WEBHOOK_URL": hook, "FORAGER_POSTGRES_SINK_URL": sink}

    settings = load(env=dict.fromkeys(secret_variables(), CANARY) | urls)

    assert CANARY not in f"{settings!r} {settings} {settings.model_dump_json(exclude=DATABASES)}"
    assert "service_key=SecretStr('***" in repr(settings)
    assert set(settings.secrets()) == {CANARY, hook, sink}


def test_the_password_of_a_destination_counts_as_a_secret_in_both_spellings(load: Load) -> None:
    address = "postgresql://u:p%40ss@host/db"
    assert load(env={"FORAGER_POSTGRES_SINK_URL": address}).secrets() == (address, "p%40ss", "p@ss")


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
