"""Forager's own settings, each declared once: type, default, limits, and the seed's own name if there is one.

The settings of a pipeline are declared in its own folder; `merged` joins them to this class, into one flat tree. A
setting never changes after it is loaded, and an error never shows the value of a secret.
"""

from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, SecretStr, create_model
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from forager import __version__
from forager.sdk.settings import (
    FeatureSettings,
    Format,
    HeaderText,
    Host,
    Level,
    Location,
    Part,
    RegionName,
    SchemaName,
    Secrets,
    Signals,
    StoreUrl,
    Texts,
    WebUrl,
    setting,
)
from forager.storage.folder import StorageAddress
from forager.storage.settings import S3Url

_store = partial(setting, group="Data")
_keep = partial(setting, group="Retention")
_api = partial(setting, group="API")
_logs = partial(setting, group="Logs")
_otel = partial(setting, group="OpenTelemetry")
_engine = partial(setting, group="Engine and egress")
_celery = partial(setting, group="Celery")
_polite = partial(setting, group="Politeness")
_proxies = partial(setting, group="Proxies")
_via = partial(setting, group="Unblocking service")
_browser = partial(setting, group="Browsers")
_credentials = partial(setting, group="Credentials")
_AGE: dict[str, Any] = {"ge": 0, "le": 36_500}


class Settings(BaseSettings):
    """Forager's own settings. Creating an instance uses the arguments and the defaults; it reads no file and no
    environment."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, str_strip_whitespace=True, hide_input_in_errors=True
    )

    home: Location = _store(Path(".forager"), "Data folder: ledger, lock, keys, stored pages.", common=True)
    database_url: StoreUrl | None = _store(
        None,
        "URL of the PostgreSQL database for the ledger (default: SQLite in the data folder).",
        hidden=True,
        common=True,
    )
    database_pooled: bool = _store(
        False, "True if a connection pooler in transaction mode, such as PgBouncer, is between Forager and PostgreSQL."
    )
    database_direct_url: StoreUrl | None = _store(
        None,
        "URL of the same database without the pooler, for notifications; without it, work is looked for once a second.",
        hidden=True,
    )
    database_schema: SchemaName = _store(
        "forager", "PostgreSQL schema of the tables; the views for readers are in `public`. An older store stays there."
    )
    secret_key: Secrets = _store(
        (),
        "Keys that encrypt secrets in the ledger, newest first, separated by commas; without them, one is made in the"
        " data folder.",
        common=True,
    )
    evidence_days: float = _store(7.0, "Retention of the page and the screenshot of a failure.", ge=0, le=3_650)
    keep_jobs_days: float = _keep(
        90.0,
        "Retention of a finished job and its tasks; its records and changes stay. 0: for ever.",
        **_AGE,
        common=True,
    )
    keep_messages_days: float = _keep(30.0, "Retention of a delivered webhook; 0: for ever.", **_AGE)
    keep_rejected_days: float = _keep(90.0, "Retention of a row that failed validation; 0: for ever.", **_AGE)
    keep_attempts_days: float = _keep(30.0, "Retention of the log of a task's attempts; 0: for ever.", **_AGE)
    keep_changes_days: float = _keep(
        0.0, "Retention of a change in the log once every sink has passed it; 0: for ever.", **_AGE, common=True
    )
    keep_records_days: float = _keep(
        0.0, "Retention of the records of one job once that job is removed; 0: for ever.", **_AGE
    )

    archive: StorageAddress | None = _keep(
        None, "Target of `forager archive`: a folder, or s3://bucket/prefix (extra `s3`).", common=True
    )

    blobs: S3Url | None = _store(
        None,
        "Store of pages for workers on several machines: s3://bucket/prefix (default: the data folder).",
        common=True,
    )
    blob_days: float | None = _store(
        None,
        "Retention of a stored page to which a record or task refers; unset: as long as they refer to it. A page"
        " that is gone is fetched again when it is needed.",
        gt=0,
        le=36_500,
    )
    blob_grace_hours: float = _store(24.0, "Retention of a stored page to which nothing refers.", ge=1, le=8_760)

    record: Texts = _store(
        (),
        "Pipelines whose jobs are recorded for `forager replay`, separated by commas, or `all`: every answer is written"
        " to the data folder.",
    )
    record_days: float = _store(7.0, "Retention of a recording; 0: for ever.", **_AGE)

    host: Host = _api(
        "127.0.0.1", "Address that the API binds; any but loopback needs a strong service key.", common=True
    )
    port: int = _api(8001, "Port of the API (0 = any free port).", seed="SCRAPER_PORT", ge=0, le=65_535, common=True)
    service_key: SecretStr | None = _api(
        None,
        "Key that callers send as X-Service-Key; without it, one is made in the data folder.",
        seed="SCRAPER_SERVICE_KEY",
        common=True,
    )
    api_url: WebUrl | None = _api(
        None,
        "Forager that commands go to, such as http://host:8001; without it, the one of the data folder.",
        common=True,
    )

    agent_max_pages: int = _api(100, "Pages that a session of an agent at `/mcp` may fetch.", ge=0, le=10**9)
    agent_max_credits: int = _api(0, "Credits that a session of an agent at `/mcp` may spend.", ge=0, le=10**9)
    agent_max_usd: float = _api(0.0, "Dollars that a session of an agent at `/mcp` may spend.", ge=0, le=10**6)
    agent_max_minutes: float = _api(
        60.0, "Minutes after its first call during which a session of an agent at `/mcp` may spend.", ge=0, le=10**6
    )

    otel_endpoint: WebUrl | None = _otel(
        None, "OTLP over HTTP: base URL of a collector, such as http://127.0.0.1:4318; unset: nothing is measured."
    )
    otel_headers: SecretStr | None = _otel(None, "Headers for the collector: name=value, separated by commas.")
    otel_sample: float = _otel(0.1, "Share of tasks and jobs that are traced, from 0 to 1.", ge=0, le=1)
    otel_signals: Signals = _otel(("traces", "metrics", "logs"), "Data that is sent: traces, metrics, logs.")
    otel_interval_seconds: float = _otel(60.0, "Time between two transmissions of metrics.", ge=1, le=3_600)

    log_level: Level = _logs(
        "INFO",
        "Minimum level that is logged: DEBUG, INFO, WARNING, ERROR or CRITICAL.",
        seed="SCRAPER_LOG_LEVEL",
        common=True,
    )
    log_format: Format = _logs(
        "auto", "json, console, or auto: console on a terminal, JSON lines elsewhere.", common=True
    )

    lease_seconds: float = _engine(
        30.0, "Validity of a claim without a heartbeat; recovery after a crash takes this time.", ge=1, le=3_600
    )
    shutdown_seconds: float = _engine(
        30.0,
        "Time limit of running tasks after SIGTERM.",
        seed="SCRAPER_GRACEFUL_SHUTDOWN_SECONDS",
        ge=0,
        le=3_600,
        common=True,
    )
    readers: int = _engine(
        0, "Processes that parse pages; started with the first page (0 = one per core).", ge=0, le=64
    )
    patience_hours: float = _engine(
        168.0,
        "Total wait of a task for causes that burn no attempt (429, an open breaker, no proxy), before it is"
        " given up. Waits for hours, caps and pauses do not count.",
        gt=0,
        le=87_600,
    )
    capacity: int = _engine(1_000, "Maximum HTTP requests in flight in one process.", ge=1, le=100_000, common=True)
    region: RegionName | None = _engine(
        None,
        "Region in which this process works, such as eu: it takes the lanes that are pinned there, beside those that"
        " are not pinned (PostgreSQL).",
    )
    egress_allow: Texts = _engine(
        (), "Private networks that may be reached: CIDR or host:port, separated by commas.", common=True
    )
    user_agent: HeaderText = _engine(f"Forager/{__version__}", "User-Agent of requests.", common=True)

    broker_url: SecretStr | None = _celery(
        None, "URL of Celery's broker: redis://host:6379/0 or amqp://user:password@host:5672//.", common=True
    )
    celery_config: str | None = _celery(
        None, "Python module with Celery settings of your own, such as `imports`, for workers and beat."
    )
    shifts: int = _celery(8, "Maximum shifts that run or are sent at once.", ge=1, le=10_000)
    shift_seconds: float = _celery(60.0, "Maximum length of a shift, without its drain.", gt=0, le=86_400)
    shift_idle_seconds: float = _celery(2.0, "Time without work after which a shift ends.", gt=0, le=3_600)

    rate_limit_tokens: float = _polite(
        2.0,
        "Maximum requests per interval and site, unless a policy sets another limit.",
        seed="SCRAPER_RATE_LIMIT_TOKENS",
        gt=0,
        le=100_000,
        common=True,
    )
    rate_limit_interval_seconds: float = _polite(
        10.0, "Length of that interval.", seed="SCRAPER_RATE_LIMIT_INTERVAL_SECONDS", gt=0, le=86_400, common=True
    )
    cb_window_size: int = _polite(
        10,
        "Number of recent calls that a site's circuit breaker considers.",
        seed="SCRAPER_CB_WINDOW_SIZE",
        ge=1,
        le=1_000,
    )
    cb_failure_threshold: int = _polite(
        5, "Failures among these calls that open the breaker.", seed="SCRAPER_CB_FAILURE_THRESHOLD", ge=1, le=1_000
    )
    cb_cooldown_seconds: float = _polite(
        120.0, "Time until an open breaker lets one probe through.", seed="SCRAPER_CB_COOLDOWN_SECONDS", ge=0, le=86_400
    )
    domain_policies_path: Location | None = _polite(
        None,
        "YAML file with rules per domain (default: the one included with Forager).",
        seed="SCRAPER_DOMAIN_POLICIES_PATH",
        common=True,
    )
    robots_agent: HeaderText = _polite("Forager", "User agent that is matched against robots.txt.")

    proxy_endpoints: Secrets = _proxies(
        (),
        "Proxies as http://user:password@host:port, separated by commas.",
        seed="SCRAPER_PROXY_ENDPOINTS",
        common=True,
    )
    proxy_file: Location | None = _proxies(
        None, "File with more proxies, one per line; # begins a comment.", common=True
    )
    proxy_regions: Texts = _proxies(
        (),
        "Use only proxies of these regions, by their two-letter codes, and those without a region; for workers that"
        " run in a region of their own.",
    )
    proxy_check_url: WebUrl | None = _proxies(
        None, "URL fetched through a proxy to check it; without it, a check only connects to the proxy."
    )
    proxy_health_check_interval_seconds: float = _proxies(
        60.0,
        "Time between two checks of a proxy.",
        seed="SCRAPER_PROXY_HEALTH_CHECK_INTERVAL_SECONDS",
        ge=1,
        le=86_400,
    )
    via_url: SecretStr | None = _via(
        None,
        "Address of the unblocking service, with {url} for the page and {key} for its key:"
        " https://api.service.example/v1/?key={key}&url={url}.",
    )
    via_api_key: SecretStr | None = _via(None, "Its key. Without {key} in the address, it is sent as a bearer token.")
    via_price: Decimal | None = _via(None, "Price of a request in USD.", ge=0, le=100)
    via_max_usd_day: Decimal | None = _via(
        None, "Maximum USD for the service in a UTC day. One of the two caps is required.", ge=0, le=10**6
    )
    via_max_usd_month: Decimal | None = _via(None, "Maximum USD for the service in a UTC month.", ge=0, le=10**6)
    via_cost_header: HeaderText | None = _via(
        None, "Header of its answers with the number of requests that one counts as; without it, one."
    )
    via_timeout_seconds: float = _via(60.0, "Time limit of one request to it.", gt=0, le=300)

    proxy_domain_cooldown_seconds: float = _proxies(
        30.0,
        "Minimum time between two requests of a proxy to a site, unless a policy sets another.",
        seed="SCRAPER_PROXY_DOMAIN_COOLDOWN_SECONDS",
        ge=0,
        le=86_400,
    )

    chromium: Location | None = _browser(
        None, "Path of the Chromium that visits pages (default: the installed one).", common=True
    )
    browser_pool_size: int = _browser(
        5, "Minimum number of browsers in the pool.", seed="SCRAPER_BROWSER_POOL_SIZE", ge=0, le=1_000
    )
    browser_pool_max: int = _browser(
        20,
        "Maximum browsers; more are started while tasks wait.",
        seed="SCRAPER_BROWSER_POOL_MAX",
        ge=1,
        le=1_000,
        common=True,
    )
    browser_page_limit: int = _browser(
        100, "Pages after which a browser is replaced.", seed="SCRAPER_BROWSER_PAGE_LIMIT", ge=1, le=1_000_000
    )
    browser_memory_mb: int = _browser(
        500, "Memory past which a browser is replaced; past twice as much, ended.", ge=100, le=1_000_000
    )
    browser_stealth: bool = _browser(
        True, "Hide from pages that a program drives the browser: `navigator.webdriver` is false."
    )
    navigation_timeout_ms: int = _browser(
        30_000, "Time limit for loading a page.", seed="SCRAPER_NAVIGATION_TIMEOUT_MS", ge=1, le=600_000
    )

    backend_api_url: WebUrl | None = _credentials(
        None,
        "URL of the API that returns credentials for sites: https, or http on this machine.",
        seed="SCRAPER_BACKEND_API_URL",
        common=True,
    )
    backend_service_key: SecretStr | None = _credentials(
        None, "Key for that API.", seed="SCRAPER_BACKEND_SERVICE_KEY", common=True
    )
    credential_cache_ttl_seconds: float = _credentials(
        300.0,
        "Lifetime of cached credentials.",
        seed="SCRAPER_CREDENTIAL_CACHE_TTL_SECONDS",
        ge=0,
        le=86_400,
    )
    credential_max_retries: int = _credentials(
        3,
        "Retries of that API, after 1, 2, 4 … seconds.",
        seed="SCRAPER_CREDENTIAL_MAX_RETRIES",
        ge=0,
        le=10,
    )

    prefect_api_url: str | None = _engine(
        None, "Prefect: address of its server's API, such as http://127.0.0.1:4200/api.", seed="PREFECT_API_URL"
    )

    def of(self, part: type[Part]) -> Part:
        """Return the typed settings of one feature. Raises `LookupError` if the feature is not among the merged
        ones."""
        if not isinstance(self, part):
            raise LookupError(f"These settings have no {part.__name__}: its feature is not installed.")
        return self

    def secrets(self) -> tuple[str, ...]:
        """Return every secret that is set, so that they can be removed from the log."""
        texts = [item.get_secret_value() for value in dict(self).values() for item in _secret_items(value)]
        addresses = [text for text in texts if text.startswith(("postgresql:", "postgres:"))]
        broker = self.broker_url.get_secret_value() if self.broker_url else None
        for url in (self.database_url, self.database_direct_url, broker, *addresses):
            if url and (password := urlsplit(url).password):
                texts += [password, unquote(password)]
        for proxy in self.proxy_endpoints:
            password = proxy.get_secret_value().rpartition("@")[0].rpartition("/")[2].partition(":")[2]
            texts += [password, unquote(password)]
        return tuple(dict.fromkeys(text for text in texts if text))

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Switch off pydantic's own sources: they neither report conflicting values nor name what the user wrote."""
        return (init_settings,)


def merged(parts: Sequence[type[FeatureSettings]]) -> type[Settings]:
    """Return one class with the settings of Forager and of these features, in this order.

    Raises `ValueError` if two of them declare the same name.
    """
    owners: dict[str, str] = {}
    classes: tuple[type[BaseModel], ...] = (Settings, *parts)
    for part in classes:
        for name in part.model_fields:
            if name in owners:
                raise ValueError(f"{owners[name]} and {part.__name__} both declare the setting {name!r}. Rename one.")
            owners[name] = part.__name__
    # Pydantic collects the fields of the last base first.
    bases: tuple[Any, ...] = (*reversed(parts), Settings)
    return cast("type[Settings]", create_model("Settings", __base__=bases))


def _secret_items(value: object) -> tuple[SecretStr, ...]:
    items = value if isinstance(value, tuple) else (value,)
    return tuple(item for item in items if isinstance(item, SecretStr))
