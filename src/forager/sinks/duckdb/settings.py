"""The settings and options of DuckDB files.

Kept apart from the wiring: every command reads the settings, few of them need the rest.
"""

from pydantic import BaseModel, ConfigDict, Field

from forager.sdk.settings import FeatureSettings, Location, setting


class DuckDBSettings(FeatureSettings):
    duckdb_folder: Location | None = setting(
        None, "Folder of the files of sinks of the type duckdb: NAME.duckdb each.", group="Sinks", common=True
    )


class DuckDBOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    every_seconds: float = Field(
        default=10.0,
        ge=0.02,
        le=3_600,
        description="Seconds for which changes are collected. The file is open for writing only meanwhile.",
    )
    changes: bool = Field(default=True, description="Also write all changes to the table `changes`, as JSON.")
