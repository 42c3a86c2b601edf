"""Declares settings: Forager's own, and those of a feature.

A feature's own settings are a subclass of `FeatureSettings`. The application merges all of them into one flat tree, so
that `FORAGER_<FIELD>`, `.env`, `forager.toml`, flags, docs/settings.md and error messages work the same way for every
field. A feature reads its part with `settings.of(MySettings)`.
"""

import re
from ipaddress import IPv6Address
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, TypeVar
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from forager.core.regions import REGION_FORM, is_region

Part = TypeVar("Part", bound="FeatureSettings")


def setting(
    default: Any,
    about: str,
    *,
    group: str,
    common: bool = False,
    seed: str | None = None,
    hidden: bool = False,
    **limits: Any,
) -> Any:
    """Declare one setting: `rate: int = setting(10, "Maximum queries per second.", group="Mine", ge=1)`.

    `group` is its heading in docs/settings.md. `common` marks what an operator is likely to set: it comes first there,
    and every other setting is listed as advanced. `seed` is a second name under which it is read, `hidden` marks text
    that may contain a password, and `limits` are pydantic's `ge`, `gt` and `le`.
    """
    signs = {"ge": "≥", "gt": ">", "le": "≤"}
    bounds = ", ".join(f"{signs[limit]} {bound:,}" for limit, bound in limits.items())
    extra: dict[str, Any] = {"group": group, "common": common, "seed": seed, "hidden": hidden, "limits": bounds}
    return Field(default, description=about, repr=not hidden, json_schema_extra=extra, **limits)


class FeatureSettings(BaseModel):
    """The settings of one feature. Field names are global: choose names that no other feature uses."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, str_strip_whitespace=True, hide_input_in_errors=True
    )


class SettingsTree(Protocol):
    """All settings, merged."""

    def of(self, part: type[Part]) -> Part:
        """Return the typed settings of one feature. Raises `LookupError` if the feature is not among the merged
        ones."""
        ...


# The types of settings: which text each accepts, and the error message for anything else. Pure.
#
# A message never repeats the value, which may contain a password.


def _expanded(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:
        raise ValueError("the home folder that ~ stands for is not known; write the path out") from None


def _split(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _parsed_url(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ValueError("it is not a valid URL") from None
    return parts


def _web_url(url: str) -> str:
    parts = _parsed_url(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or re.search(r"\s", url):
        raise ValueError("it should be a URL like https://host or http://host:port")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ValueError("it should be a URL without user, password, query and fragment")
    return url.rstrip("/")


def _table_or_file(value: object) -> object:
    """`bigquery:dataset.table` stays text; everything else is the path of a file."""
    if not isinstance(value, str) or ":" not in value or not value.partition(":")[0].isalpha():
        return _expanded(Path(value)) if isinstance(value, str) else value
    if not re.fullmatch(r"[a-z]+:(?:[A-Za-z0-9-]{1,63}\.)?[A-Za-z0-9_]{1,1024}\.[A-Za-z0-9_-]{1,1024}", value):
        raise ValueError("it should be a file, or a table such as bigquery:reference.geo_zip_all")
    return value


def _secret_url(url: SecretStr) -> SecretStr:
    """Check a URL that may contain a token in its path or query, but no password."""
    parts = _parsed_url(url.get_secret_value())
    if parts.scheme not in ("http", "https") or not parts.hostname or re.search(r"\s", url.get_secret_value()):
        raise ValueError("it should be a URL like https://host/path")
    if parts.username is not None or parts.password is not None:
        raise ValueError("it should be a URL without user and password")
    return url


def _schema_name(name: str) -> str:
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", name) or name.startswith("pg_"):
        raise ValueError("it should be a PostgreSQL schema name of small letters, digits and _, such as forager")
    return name


def _store_url(url: str) -> str:
    parts = _parsed_url(url)
    if parts.scheme not in ("postgresql", "postgres") or len(parts.path) < 2:
        raise ValueError("it should be postgresql://user:password@host:5432/database; without it, SQLite is used")
    return url


def _host(host: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9._-]+", host):
        return host
    try:
        return str(IPv6Address(host))
    except ValueError:
        raise ValueError("it should be a name or an address alone, such as 127.0.0.1, 0.0.0.0 or ::1") from None


def _header_text(text: str) -> str:
    if not re.fullmatch(r"[\x20-\x7e]{1,256}", text):
        raise ValueError("it should be 1 to 256 printable ASCII characters")
    return text


def _region_name(name: str) -> str:
    if not is_region(name):
        raise ValueError(REGION_FORM)
    return name


def _signals(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name not in SIGNALS:
            raise ValueError(f"unknown signal {name!r}; choose from {', '.join(SIGNALS)}")
    return names


SIGNALS = ("traces", "metrics", "logs")
Location = Annotated[Path, AfterValidator(_expanded)]
TableOrFile = Annotated[Path | str, BeforeValidator(_table_or_file)]
"""The path of a file; or, as text, a table in a warehouse, such as `bigquery:reference.geo_zip_all`."""
Texts = Annotated[tuple[str, ...], BeforeValidator(_split)]
Signals = Annotated[Texts, AfterValidator(_signals)]
Secrets = Annotated[tuple[SecretStr, ...], BeforeValidator(_split)]
WebUrl = Annotated[str, AfterValidator(_web_url)]
SecretUrl = Annotated[SecretStr, AfterValidator(_secret_url)]
StoreUrl = Annotated[str, AfterValidator(_store_url)]
SchemaName = Annotated[str, AfterValidator(_schema_name)]
RegionName = Annotated[str, AfterValidator(_region_name)]
Host = Annotated[str, AfterValidator(_host)]
HeaderText = Annotated[str, AfterValidator(_header_text)]
Upper = BeforeValidator(lambda value: value.upper() if isinstance(value, str) else value)
Lower = BeforeValidator(lambda value: value.lower() if isinstance(value, str) else value)
Level = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], Upper]
Format = Annotated[Literal["auto", "json", "console"], Lower]
