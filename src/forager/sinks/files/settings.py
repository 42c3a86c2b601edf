"""The settings and options of sinks that write files.

Kept apart from the wiring: every command reads the settings, few of them need the rest.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from forager.sdk.settings import FeatureSettings, Location, setting
from forager.storage.settings import S3Addresses, S3Text


class FilesSettings(FeatureSettings):
    files_folder: Location | None = setting(
        None,
        "Folder of sinks of the type files; each writes to a folder of its name there.",
        group="Sinks",
        common=True,
    )
    files_s3: S3Addresses = setting(
        (),
        "Addresses in S3 that sinks of the type files may write to: s3://bucket/prefix, separated by commas.",
        group="Sinks",
    )


class FilesOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    format: Literal["jsonl", "csv", "parquet"] = Field(
        default="jsonl", description="The format of the files: jsonl, csv or parquet."
    )
    every_seconds: float = Field(
        default=10.0, ge=0.02, le=600, description="Seconds for which changes are collected: fewer, larger files."
    )
    to: S3Text | None = Field(
        default=None,
        description="Write to this address, s3://bucket/prefix, which FORAGER_FILES_S3 allows, instead of the folder.",
    )
