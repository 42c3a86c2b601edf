"""The settings of ClickHouse: where the server is and how to sign in; and what a row may choose."""

import re
from functools import partial
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from forager.sdk.settings import FeatureSettings, Location, WebUrl, setting

_clickhouse = partial(setting, group="ClickHouse")


def _database(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", name):
        raise ValueError("it should be the name of a database: letters, digits and _, such as forager")
    return name


DatabaseName = Annotated[str, AfterValidator(_database)]


class ClickHouseSettings(FeatureSettings):
    clickhouse_url: WebUrl | None = _clickhouse(
        None, "HTTP interface of ClickHouse, as https://host:8443, for sinks of the type clickhouse.", common=True
    )
    clickhouse_database: DatabaseName = _clickhouse(
        "forager", "Database of the tables; it is created if it does not exist."
    )
    clickhouse_username: str | None = _clickhouse(None, "User to sign in as; without it, ClickHouse's default user.")
    clickhouse_password: SecretStr | None = _clickhouse(None, "Password of this user.")
    clickhouse_ca_file: Location | None = _clickhouse(
        None, "File with the certificates that sign the server's own; without it, the system's."
    )
    clickhouse_timeout_seconds: float = _clickhouse(60.0, "Time limit of a statement.", gt=0, le=3_600)


class ClickHouseOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    every_seconds: float = Field(
        default=5.0, ge=0.02, le=3_600, description="Seconds for which changes are collected: fewer, larger inserts."
    )
    changes: bool = Field(default=True, description="Also write all changes to the table `changes`, as JSON.")
