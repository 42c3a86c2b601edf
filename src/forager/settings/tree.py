"""Every setting of Forager, declared once: type, default, limits, and the seed's own name where there is one.

`load_settings` is the only reader of the environment, `.env` and `forager.toml`; only `app` and the front doors call
it. A setting never changes after it is loaded, and an error never shows the value of a secret.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pydantic import Field, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from forager import __version__
from forager.core.errors import FieldError, Rejected
from forager.settings.sources import Given, Name, assembled, gather
from forager.settings.types import (
    Format,
    HeaderText,
    Host,
    Level,
    Location,
    Secrets,
    SecretUrl,
    StoreUrl,
    Texts,
    WebUrl,
)

LATER = "Later: read and checked, without effect until its pipeline opens"


def setting(
    default: Any, about: str, *, group: str, seed: str | None = None, hidden: bool = False, **limits: Any
) -> Any:
    """One declaration. `seed`: the name that a seed document gives it; `hidden`: text that may hold a password."""
    signs = {"ge": "≥", "gt": ">", "le": "≤"}
    bounds = ", ".join(f"{signs[limit]} {bound:,}" for limit, bound in limits.items())
    extra: dict[str, Any] = {"group": group, "seed": seed, "hidden": hidden, "limits": bounds}
    return Field(default, description=about, repr=not hidden, json_schema_extra=extra, **limits)


_store = partial(setting, group="Data")
_api = partial(setting, group="API")
_logs = partial(setting, group="Logs")
_engine = partial(setting, group="Engine and egress")
_polite = partial(setting, group="Politeness")
_proxies = partial(setting, group="Proxies")
_browser = partial(setting, group="Browsers")
_serper = partial(setting, group="Serper")
_places = partial(setting, group="Places")
_webhooks = partial(setting, group="Webhooks")
_credentials = partial(setting, group="Credentials")
_scrape = partial(setting, group="Scrape")
_later = partial(setting, group=LATER)


class Settings(BaseSettings):
    """Built by `load_settings`; built directly, as tests do, it takes its arguments and the defaults, nothing else."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, str_strip_whitespace=True, hide_input_in_errors=True
    )

    home: Location = _store(Path(".forager"), "Data folder: ledger, lock, keys, stored pages.")
    database_url: StoreUrl | None = _store(
        None, "PostgreSQL to keep the ledger in; without it, SQLite in the data folder.", hidden=True
    )
    secret_key: Secrets = _store(
        (),
        "Keys that encrypt secrets in the ledger, newest first, separated by commas; without them, one is made in the"
        " data folder.",
    )
    evidence_days: float = _store(
        7.0, "How long the page and the picture of a failure are kept for a look.", ge=0, le=3_650
    )

    host: Host = _api("127.0.0.1", "Address that the API binds; any but loopback needs a strong service key.")
    port: int = _api(8001, "Port of the API; 0 takes a free one.", seed="SCRAPER_PORT", ge=0, le=65_535)
    service_key: SecretStr | None = _api(
        None,
        "Key that callers send as X-Service-Key; without it, one is made in the data folder.",
        seed="SCRAPER_SERVICE_KEY",
    )
    api_url: WebUrl | None = _api(
        None, "Forager that commands go to, such as http://host:8001; without it, the one of the data folder."
    )

    log_level: Level = _logs(
        "INFO", "Least level that is logged: DEBUG, INFO, WARNING, ERROR or CRITICAL.", seed="SCRAPER_LOG_LEVEL"
    )
    log_format: Format = _logs("auto", "json, console, or auto: console on a terminal, JSON lines elsewhere.")

    lease_seconds: float = _engine(
        30.0, "How long a claim lives without a heartbeat; recovery after a crash takes as long.", ge=1, le=3_600
    )
    shutdown_seconds: float = _engine(
        30.0,
        "How long running tasks may go on after SIGTERM.",
        seed="SCRAPER_GRACEFUL_SHUTDOWN_SECONDS",
        ge=0,
        le=3_600,
    )
    patience_hours: float = _engine(
        168.0,
        "How long a task may wait in vain, for what burns no attempt (429, an open breaker, no proxy), before it is"
        " given up. Waits for hours, caps and pauses do not count.",
        gt=0,
        le=87_600,
    )
    capacity: int = _engine(1_000, "Most HTTP requests in flight in one process.", ge=1, le=100_000)
    egress_allow: Texts = _engine((), "Private networks that may be reached: CIDR or host:port, separated by commas.")
    user_agent: HeaderText = _engine(f"Forager/{__version__}", "User-Agent of requests.")

    rate_limit_tokens: float = _polite(
        2.0,
        "Most requests per interval and site, where no policy says otherwise.",
        seed="SCRAPER_RATE_LIMIT_TOKENS",
        gt=0,
        le=100_000,
    )
    rate_limit_interval_seconds: float = _polite(
        10.0, "Length of that interval.", seed="SCRAPER_RATE_LIMIT_INTERVAL_SECONDS", gt=0, le=86_400
    )
    cb_window_size: int = _polite(
        10, "Calls that a site's breaker looks back on.", seed="SCRAPER_CB_WINDOW_SIZE", ge=1, le=1_000
    )
    cb_failure_threshold: int = _polite(
        5, "Failures among them that open it.", seed="SCRAPER_CB_FAILURE_THRESHOLD", ge=1, le=1_000
    )
    cb_cooldown_seconds: float = _polite(
        120.0, "Time until it lets one probe through.", seed="SCRAPER_CB_COOLDOWN_SECONDS", ge=0, le=86_400
    )
    domain_policies_path: Location | None = _polite(
        None, "YAML with rules per domain, instead of the one that ships.", seed="SCRAPER_DOMAIN_POLICIES_PATH"
    )
    robots_agent: HeaderText = _polite("Forager", "Name under which robots.txt is read.")

    proxy_endpoints: Secrets = _proxies(
        (), "Proxies as http://user:password@host:port, separated by commas.", seed="SCRAPER_PROXY_ENDPOINTS"
    )
    proxy_file: Location | None = _proxies(None, "File with more of them, one per line; # begins a comment.")
    proxy_check_url: WebUrl | None = _proxies(
        None, "Asked through a proxy to check it; without it, only a connection to the proxy itself is made."
    )
    proxy_health_check_interval_seconds: float = _proxies(
        60.0,
        "Time between two checks of a proxy.",
        seed="SCRAPER_PROXY_HEALTH_CHECK_INTERVAL_SECONDS",
        ge=1,
        le=86_400,
    )
    proxy_domain_cooldown_seconds: float = _proxies(
        30.0,
        "Rest of a proxy between two visits to a site, where no policy says otherwise.",
        seed="SCRAPER_PROXY_DOMAIN_COOLDOWN_SECONDS",
        ge=0,
        le=86_400,
    )

    chromium: Location | None = _browser(None, "Chromium that visits pages; without it, the one that is installed.")
    browser_pool_size: int = _browser(
        5, "Browsers that are started without waiting.", seed="SCRAPER_BROWSER_POOL_SIZE", ge=0, le=1_000
    )
    browser_pool_max: int = _browser(
        20, "Most browsers at once: more are started while tasks wait.", seed="SCRAPER_BROWSER_POOL_MAX", ge=1, le=1_000
    )
    browser_page_limit: int = _browser(
        100, "Pages after which a browser is replaced.", seed="SCRAPER_BROWSER_PAGE_LIMIT", ge=1, le=1_000_000
    )
    browser_memory_mb: int = _browser(
        500, "Memory past which a browser is replaced; past twice as much, ended.", ge=100, le=1_000_000
    )
    navigation_timeout_ms: int = _browser(
        30_000, "How long a page may take to come.", seed="SCRAPER_NAVIGATION_TIMEOUT_MS", ge=1, le=600_000
    )

    serper_api_key: SecretStr | None = _serper(
        None, "Key of the Serper account that queries are charged to.", seed="SERPER_API_KEY"
    )
    serper_base_url: WebUrl = _serper(
        "https://google.serper.dev", "Where the Serper API is; the sandbox takes its place in a demo."
    )
    serper_rate: int = _serper(
        300, "Most queries started in any one second, by your package: 50, 100, 200 or 300.", ge=1, le=100_000
    )
    serper_burst: int = _serper(10, "Most of them at the same moment.", ge=1, le=100_000)
    serper_concurrency: int = _serper(1_000, "Most Serper queries in flight.", ge=1, le=100_000)
    serper_timeout_seconds: float = _serper(
        30.0, "How long to wait for an answer.", seed="SERPER_TIMEOUT_SECONDS", gt=0, le=600
    )
    serper_max_credits_day: int | None = _serper(
        None, "Most credits spent in a UTC day, over all jobs; without it, no cap.", ge=0
    )
    serper_max_credits_month: int | None = _serper(
        None, "Most credits spent in a UTC month, over all jobs; without it, no cap.", ge=0
    )
    serper_price_per_1000: Decimal | None = _serper(
        None, "Price of 1,000 credits in USD; without it, that of the package of the rate.", ge=0, le=1_000_000
    )

    default_batch_size: int = _places(
        100, "Most queries that one lease takes for a job.", seed="DEFAULT_BATCH_SIZE", ge=1, le=10_000
    )
    default_pages: int = _places(3, "Most pages of 10 results per ZIP.", seed="DEFAULT_PAGES", ge=1, le=10)
    max_retries_per_query: int = _places(
        3, "Retries of a query after 5xx, time-out or connection error.", seed="MAX_RETRIES_PER_QUERY", ge=0, le=100
    )
    retry_delay_seconds: float = _places(
        5.0, "Wait before the first retry; doubles with each.", seed="RETRY_DELAY_SECONDS", ge=0, le=86_400
    )
    zip_table: Location | None = _places(None, "CSV with the columns zip and state, instead of the table that ships.")

    webhook_secret: SecretStr | None = _webhooks(
        None, "Key that signs webhooks; without it, none is sent.", seed="SCRAPER_WEBHOOK_SECRET"
    )
    default_webhook_url: SecretUrl | None = _webhooks(
        None,
        "Receiver of the webhook of every job that names none; without it, only jobs with a callback_url have one.",
        seed="SCRAPER_DEFAULT_WEBHOOK_URL",
    )

    backend_api_url: WebUrl | None = _credentials(
        None, "API that gives credentials for sites: https, or http on this machine.", seed="SCRAPER_BACKEND_API_URL"
    )
    backend_service_key: SecretStr | None = _credentials(None, "Key for that API.", seed="SCRAPER_BACKEND_SERVICE_KEY")
    credential_cache_ttl_seconds: float = _credentials(
        300.0,
        "How long credentials are remembered.",
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

    max_queue_depth: int = _scrape(
        500,
        "Most pages that wait; a job that does not fit is refused.",
        seed="SCRAPER_MAX_QUEUE_DEPTH",
        ge=0,
        le=100_000,
    )
    task_timeout_seconds: float = _scrape(
        60.0,
        "Time for one page, without what it waits for its lane.",
        seed="SCRAPER_TASK_TIMEOUT_SECONDS",
        gt=0,
        le=3_600,
    )
    keep_logged_in_pages: bool = _scrape(
        False, "Keep failed pages for a look also where they were asked for with a log-in."
    )
    google_application_credentials: Location | None = _later(
        None, "BigQuery: file with the service account.", seed="GOOGLE_APPLICATION_CREDENTIALS"
    )
    bigquery_project_id: str | None = _later(None, "BigQuery: project of the mirror.", seed="BIGQUERY_PROJECT_ID")
    prefect_api_url: str | None = _later(None, "Prefect: its server.", seed="PREFECT_API_URL")
    google_requests_per_second: float | None = _later(
        None, "reviews: requests per second to Google.", seed="GOOGLE_REQUESTS_PER_SECOND", ge=0
    )
    ratelimit: Mapping[str, str] = _later({}, "reviews: every name that begins so, as text.", seed="RATELIMIT_*")
    apify_token: SecretStr | None = _later(None, "listings: token of the Apify account.", seed="APIFY_TOKEN")

    def secrets(self) -> tuple[str, ...]:
        """Every secret that is set, so that the log can be kept free of them."""
        found = [item.get_secret_value() for value in dict(self).values() for item in _secret_items(value)]
        if self.database_url and (password := urlsplit(self.database_url).password):
            found += [password, unquote(password)]
        for proxy in self.proxy_endpoints:
            password = proxy.get_secret_value().rpartition("@")[0].rpartition("/")[2].partition(":")[2]
            found += [password, unquote(password)]
        return tuple(dict.fromkeys(text for text in found if text))

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The library's own sources stay off: they neither see that two of them differ nor name what a user wrote."""
        return (init_settings,)


@dataclass(frozen=True, slots=True)
class Declared:
    """A setting as the documentation needs it."""

    name: Name
    group: str
    about: str
    default: str | None
    """As text that could be written; None: not set."""
    limits: str


def declared() -> tuple[Declared, ...]:
    """Every setting, in the order of declaration."""
    return tuple(_declared(field, info) for field, info in Settings.model_fields.items())


def load_settings(
    overrides: Mapping[str, object] | None = None, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Settings:
    """Flag > FORAGER_X > the seed's own name > .env > forager.toml > default. Relative paths are those of `cwd`.

    `overrides` holds command line flags by field; None there means that the flag was not given. Everything that is
    wrong is reported at once, as `Rejected` with an entry for each name.
    """
    folder = Path.cwd() if cwd is None else cwd.absolute()
    names = tuple(each.name for each in declared())
    given, wrong = gather(names, overrides or {}, os.environ if env is None else env, folder)
    try:
        loaded = Settings(**assembled(given))
    except ValidationError as invalid:
        wrong += [_wrong_value(error, given) for error in invalid.errors(include_url=False, include_context=False)]
    if wrong:
        raise Rejected(_summary(wrong), fields=wrong) from None
    paths = {field: folder / value for field, value in loaded if isinstance(value, Path)}
    return loaded.model_copy(update=paths)


def _declared(field: str, info: FieldInfo) -> Declared:
    extra = info.json_schema_extra
    assert isinstance(extra, dict)  # noqa: S101 — `setting` wrote it
    seed = str(extra["seed"]) if extra["seed"] else None
    name = Name(field, seed=seed, hidden=bool(extra["hidden"]) or "Secret" in str(info.annotation))
    return Declared(name, str(extra["group"]), info.description or "", _as_text(info.default), str(extra["limits"]))


def _as_text(default: object) -> str | None:
    if default is None or default in ((), {}):
        return None
    return f"{default:g}" if isinstance(default, float) else str(default)


def _secret_items(value: object) -> tuple[SecretStr, ...]:
    items = value if isinstance(value, tuple) else (value,)
    return tuple(item for item in items if isinstance(item, SecretStr))


def _wrong_value(error: ErrorDetails, given: Mapping[str, Given]) -> FieldError:
    field = str(error["loc"][0])
    source = given.get(field) or given[".".join(str(part) for part in error["loc"][:2])]
    reason = error["msg"].removeprefix("Value error, ").replace("Input should", "it should")
    text = str(source.value)
    # An @ in what should be a URL may have a password before it.
    shown = "the value" if source.name.hidden or "@" in text else repr(text[:60])
    default = next(each.default for each in declared() if each.name.field == field)
    remedy = "leave it unset" if default is None else f"leave it unset for the default, {default}"
    return FieldError(source.written, f"{shown} in {source.place} cannot be used: {reason}. Correct it, or {remedy}.")


def _summary(wrong: Sequence[FieldError]) -> str:
    lines = [f"{each.field}: {each.message}" for each in wrong]
    return lines[0] if len(lines) == 1 else "\n- ".join([f"{len(lines)} settings are wrong:", *lines])
