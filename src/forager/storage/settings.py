"""The settings of S3: the server, and how to sign in. Which buckets are used is a setting of each feature."""

import re
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, SecretStr

from forager.sdk.settings import FeatureSettings, Location, WebUrl, setting

_s3 = partial(setting, group="S3")


class S3Settings(FeatureSettings):
    s3_endpoint: WebUrl | None = _s3(
        None, "Server that speaks S3, such as http://minio:9000 (default: Amazon's).", common=True
    )
    s3_region: str = _s3("us-east-1", "Region of the buckets.")
    s3_access_key: str | None = _s3(
        None, "Access key; without it, the variables AWS_… or the role of this machine are used.", common=True
    )
    s3_secret_key: SecretStr | None = _s3(None, "Secret of this access key.", common=True)
    s3_timeout_seconds: float = _s3(60.0, "Time limit of one request.", gt=0, le=600)
    s3_ca_file: Location | None = _s3(
        None, "File with the certificates that sign the server's own; without it, the system's."
    )


# An address in S3: `s3://bucket/prefix`. Pure.


_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_NAME = re.compile(r"[A-Za-z0-9_=-][A-Za-z0-9._=-]*")
"""A part of a prefix. Neither empty nor `..`, and not hidden by a dot at its beginning."""


@dataclass(frozen=True, slots=True)
class S3Address:
    """A bucket, and the beginning of the keys in it."""

    bucket: str
    prefix: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `s3://bucket` or `s3://bucket/some/prefix`. Raises `ValueError` for anything else."""
        scheme, found, rest = text.strip().partition("://")
        bucket, _, prefix = rest.partition("/")
        names = tuple(prefix.rstrip("/").split("/")) if prefix.strip("/") else ()
        if not found or scheme != "s3" or not _BUCKET.fullmatch(bucket):
            raise ValueError("it should be an address like s3://bucket/prefix")
        if not all(map(_NAME.fullmatch, names)):
            raise ValueError("a prefix has letters, digits and . _ = - between its slashes")
        return cls(bucket, names)

    def __str__(self) -> str:
        return "/".join((f"s3://{self.bucket}", *self.prefix))

    def below(self, name: str) -> Self:
        """Return the address of a folder in this one."""
        return type(self)(self.bucket, (*self.prefix, name))

    def is_within(self, other: "S3Address") -> bool:
        """Return whether this is the other address, or below it."""
        return self.bucket == other.bucket and self.prefix[: len(other.prefix)] == other.prefix


def _parsed(value: object) -> object:
    """Read addresses: a text with commas, or a list."""
    parts = value.split(",") if isinstance(value, str) and value.strip() else value or ()
    return tuple(map(_read, parts)) if isinstance(parts, list | tuple) else value


def _read(part: object) -> object:
    return S3Address.parse(part) if isinstance(part, str) else part


def _checked(text: str) -> str:
    return str(S3Address.parse(text))


S3Url = Annotated[S3Address, BeforeValidator(_read)]
"""The type of a setting: one address."""
S3Addresses = Annotated[tuple[S3Address, ...], BeforeValidator(_parsed)]
"""The type of a setting: addresses, separated by commas."""
S3Text = Annotated[str, AfterValidator(_checked)]
"""The type of an option: one address, as text."""
