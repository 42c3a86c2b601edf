"""The settings and options of files, and how the sink of a row is built from them."""

from collections.abc import Callable
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from forager.core.errors import Rejected
from forager.core.sink import SinkRow
from forager.kit.service import SinkService
from forager.kit.setting_types import Location
from forager.kit.settings import FeatureSettings, setting
from forager.sinks.files.formats import Csv, Encode, json_lines
from forager.sinks.files.place import Folder
from forager.sinks.files.sink import FilesSink


class FilesSettings(FeatureSettings):
    files_folder: Location | None = setting(
        None, "Folder of sinks of the type files; each writes to a folder of its name there.", group="Sinks"
    )


class FilesOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    format: Literal["jsonl", "csv"] = Field(default="jsonl", description="The format of the files: jsonl or csv.")
    every_seconds: float = Field(
        default=10.0, ge=0.02, le=600, description="Seconds for which changes are collected: fewer, larger files."
    )


FORMATS: dict[str, Callable[[SinkService], Encode]] = {"jsonl": lambda _: json_lines, "csv": lambda s: Csv(_fields(s))}


def build(service: SinkService, row: SinkRow) -> FilesSink:
    """Build the sink of a row. Raises `Rejected` if no folder is set."""
    folder, options = service.settings.of(FilesSettings).files_folder, FilesOptions(**row.options)
    if folder is None:
        raise Rejected("A sink of the type files needs a folder: set FORAGER_FILES_FOLDER.")
    encode = FORMATS[options.format](service)
    return FilesSink(row, Folder(folder / row.name), encode, options.format, age=options.every_seconds)


def _fields(service: SinkService) -> dict[str, tuple[str, ...]]:
    """By kind of record: the names of its fields."""
    records = [record for pipeline in service.pipelines.values() for record in pipeline.records]
    return {record.kind: tuple(record.model_fields) for record in records}
