"""The settings of PostgreSQL as a destination, and what a row may choose."""

from functools import partial
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from forager.sdk.settings import FeatureSettings, SchemaName, setting

_postgres = partial(setting, group="PostgreSQL sink")


def _url(url: SecretStr) -> SecretStr:
    try:
        parts = urlsplit(url.get_secret_value())
        is_whole = parts.scheme in ("postgresql", "postgres") and len(parts.path) > 1
    except ValueError:
        is_whole = False
    if not is_whole:
        raise ValueError("it should be postgresql://user:password@host:5432/database")
    return url


class PostgresSinkSettings(FeatureSettings):
    postgres_sink_url: Annotated[SecretStr, AfterValidator(_url)] | None = _postgres(
        None, "Database that sinks of the type postgres write to; it must not be the ledger's.", common=True
    )
    postgres_sink_schema: SchemaName = _postgres("forager", "Schema of the tables; it is created if it does not exist.")
    postgres_sink_timeout_seconds: float = _postgres(60.0, "Time limit of a statement.", gt=0, le=3_600)


class PostgresSinkOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    every_seconds: float = Field(
        default=1.0, ge=0.02, le=3_600, description="Seconds for which changes are collected: fewer transactions."
    )
    changes: bool = Field(default=True, description="Also write all changes to the table `changes`, as JSON.")
