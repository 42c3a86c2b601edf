"""Builds the sink of a row from them."""

import tempfile
from collections.abc import Callable, Sequence

from forager.core.errors import Rejected, Transient
from forager.core.record import Record
from forager.core.sink import SinkRow
from forager.core.storage import Storage
from forager.sdk.service import SinkService
from forager.sinks.files.manifest import Csv, Encode, Parquet, json_lines
from forager.sinks.files.settings import FilesOptions, FilesSettings
from forager.sinks.files.sink import FilesSink
from forager.storage.folder import open_storage
from forager.storage.settings import S3Address, S3Settings

FORMATS: dict[str, Callable[[SinkService], Encode]] = {
    "jsonl": lambda _: json_lines,
    "csv": lambda service: Csv({kind: tuple(record.model_fields) for kind, record in _records(service).items()}),
    "parquet": lambda service: Parquet(_records(service)),
}


def build(service: SinkService, row: SinkRow) -> FilesSink:
    """Build the sink of a row. Raises `Rejected` if its folder is not set or its address is not allowed."""
    options = FilesOptions(**row.options)
    encode = FORMATS[options.format](service)
    return FilesSink(row, _storage(service, row.name, options.to), encode, options.format, age=options.every_seconds)


def check(service: SinkService, row: SinkRow) -> Sequence[str]:
    """Check that the sink of a row can write. Raises `Rejected` if its folder cannot be written."""
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
        next(_storage(service, row.name, options.to).walk(""), None)
    except (Transient, OSError) as error:
        return [f"{options.to} cannot be listed now: {error}"]
    return []


def _storage(service: SinkService, name: str, to: str | None) -> Storage:
    settings = service.settings.of(FilesSettings)
    if to is None:
        if settings.files_folder is None:
            raise Rejected("A sink of the type files needs a folder: set FORAGER_FILES_FOLDER, or the option `to`.")
        return open_storage(settings.files_folder / name, service.settings.of(S3Settings))
    address = S3Address.parse(to)
    if not any(address.is_within(allowed) for allowed in settings.files_s3):
        raise Rejected(f"No sink may write to {address}: add it to FORAGER_FILES_S3, or choose an address below one.")
    return open_storage(address.below(name), service.settings.of(S3Settings))


def _records(service: SinkService) -> dict[str, type[Record]]:
    """Return the record classes by kind."""
    return {record.kind: record for pipeline in service.pipelines.values() for record in pipeline.records}
