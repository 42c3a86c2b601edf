"""The settings and options of files, and how the sink of a row is built from them."""

import tempfile
from collections.abc import Callable, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from forager.core.errors import Rejected, Transient
from forager.core.place import Place
from forager.core.record import Record
from forager.core.sink import SinkRow
from forager.kit.service import SinkService
from forager.kit.setting_types import Location
from forager.kit.settings import FeatureSettings, setting
from forager.sinks.files.formats import Csv, Encode, Parquet, json_lines
from forager.sinks.files.sink import FilesSink
from forager.storage.address import S3Address, S3Addresses, S3Text
from forager.storage.opening import open_place
from forager.storage.settings import S3Settings


class FilesSettings(FeatureSettings):
    files_folder: Location | None = setting(
        None, "Folder of sinks of the type files; each writes to a folder of its name there.", group="Sinks"
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


FORMATS: dict[str, Callable[[SinkService], Encode]] = {
    "jsonl": lambda _: json_lines,
    "csv": lambda service: Csv({kind: tuple(record.model_fields) for kind, record in _records(service).items()}),
    "parquet": lambda service: Parquet(_records(service)),
}


def build(service: SinkService, row: SinkRow) -> FilesSink:
    """Build the sink of a row. Raises `Rejected` if its folder is not set or its address is not allowed."""
    options = FilesOptions(**row.options)
    encode = FORMATS[options.format](service)
    return FilesSink(row, _place(service, row.name, options.to), encode, options.format, age=options.every_seconds)


def check(service: SinkService, row: SinkRow) -> Sequence[str]:
    """Look whether the sink of a row can write. Raises `Rejected` if its folder cannot be written."""
    settings, options = service.settings.of(FilesSettings), FilesOptions(**row.options)
    if options.to is None and settings.files_folder is not None:
        folder = settings.files_folder / row.name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            remedy = "Change its owner, or FORAGER_FILES_FOLDER."
            raise Rejected(f"{folder} cannot be written ({error.strerror}). {remedy}") from error
        return []
    try:
        next(_place(service, row.name, options.to).walk(""), None)
    except (Transient, OSError) as error:
        return [f"{options.to} cannot be listed now: {error}"]
    return []


def _place(service: SinkService, name: str, to: str | None) -> Place:
    settings = service.settings.of(FilesSettings)
    if to is None:
        if settings.files_folder is None:
            raise Rejected("A sink of the type files needs a folder: set FORAGER_FILES_FOLDER, or the option `to`.")
        return open_place(settings.files_folder / name, service.settings.of(S3Settings))
    address = S3Address.parse(to)
    if not any(address.is_within(allowed) for allowed in settings.files_s3):
        raise Rejected(f"No sink may write to {address}: add it to FORAGER_FILES_S3, or choose an address below one.")
    return open_place(address.below(name), service.settings.of(S3Settings))


def _records(service: SinkService) -> dict[str, type[Record]]:
    """The classes of records by kind."""
    return {record.kind: record for pipeline in service.pipelines.values() for record in pipeline.records}
