"""Opens the place that an address names: a folder, or a prefix in S3."""

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

from forager.core.place import Place
from forager.kit.setting_types import Location
from forager.storage.address import S3Address
from forager.storage.folder import Folder
from forager.storage.s3 import S3
from forager.storage.settings import S3Settings


def open_place(address: Path | S3Address, settings: S3Settings) -> Place:
    """Return the place. Nothing is created or sent yet. Raises `Rejected` if it is in S3 and the client library or a
    part of the log-in is missing."""
    return S3(address, settings) if isinstance(address, S3Address) else Folder(address)


def _read(value: object) -> object:
    return S3Address.parse(value) if isinstance(value, str) and "://" in value else value


PlaceAddress = Annotated[Location | S3Address, BeforeValidator(_read)]
"""The type of a setting: a folder, or an address in S3."""
