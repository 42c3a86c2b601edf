"""The check of `forager doctor` of the places in S3 that settings name: can they be listed with these keys?"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from forager.core.errors import ForagerError
from forager.kit.cli.finding import Finding

if TYPE_CHECKING:
    from forager.settings import Settings
    from forager.storage.address import S3Address

REMEDY = "Correct the address, or the FORAGER_S3_… settings; the bucket must exist."


def check_places(settings: "Settings") -> Iterator[Finding]:
    """Yield a finding for each place in S3. Lists one page of it; writes nothing."""
    from forager.sinks.files.wiring import FilesSettings
    from forager.storage.address import S3Address

    named = {"FORAGER_BLOBS": settings.blobs, "FORAGER_ARCHIVE": settings.archive}
    for name, address in named.items():
        if isinstance(address, S3Address):
            yield _listed(name, address, settings)
    for address in settings.of(FilesSettings).files_s3:
        yield _listed("FORAGER_FILES_S3", address, settings)


def _listed(name: str, address: "S3Address", settings: "Settings") -> Finding:
    from forager.storage.s3 import S3
    from forager.storage.settings import S3Settings

    try:
        next(S3(address, settings.of(S3Settings)).walk(""), None)
    except ForagerError as error:
        return Finding(name, "problem", error.message, REMEDY)
    return Finding(name, "ok", f"{address} can be listed")
