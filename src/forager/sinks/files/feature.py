"""The type `files`: every row writes to its own folder, or to its own prefix in S3."""

from forager.sdk.feature import Ref, SinkFeature

sink = SinkFeature(
    name="files",
    summary="Changes as files by kind and date, in a folder or in S3: JSON lines, CSV or Parquet.",
    build=Ref("forager.sinks.files.wiring:build"),
    check=Ref("forager.sinks.files.wiring:check"),
    options=Ref("forager.sinks.files.wiring:FilesOptions"),
    settings=Ref("forager.sinks.files.settings:FilesSettings"),
)
