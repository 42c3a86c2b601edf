"""The settings of S3: the server, and how to sign in. Which buckets are used is a setting of each feature."""

from functools import partial

from pydantic import SecretStr

from forager.kit.setting_types import Location, WebUrl
from forager.kit.settings import FeatureSettings, setting

_s3 = partial(setting, group="S3")


class S3Settings(FeatureSettings):
    s3_endpoint: WebUrl | None = _s3(None, "Server that speaks S3, such as http://minio:9000 (default: Amazon's).")
    s3_region: str = _s3("us-east-1", "Region of the buckets.")
    s3_access_key: str | None = _s3(
        None, "Access key; without it, the variables AWS_… or the role of this machine are used."
    )
    s3_secret_key: SecretStr | None = _s3(None, "Secret of this access key.")
    s3_timeout_seconds: float = _s3(60.0, "How long one request may take.", gt=0, le=600)
    s3_ca_file: Location | None = _s3(
        None, "File with the certificates that sign the server's own; without it, the system's."
    )
