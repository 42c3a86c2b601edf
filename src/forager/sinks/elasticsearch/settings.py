"""The settings of the search index: where the cluster is, how to sign in, how aliases are named."""

import re
from functools import partial
from typing import Annotated

from pydantic import AfterValidator, SecretStr

from forager.sdk.settings import FeatureSettings, Location, WebUrl, setting


def _prefix(text: str) -> str:
    """Check a prefix: it is part of the names of indexes, and of the paths of requests."""
    if not re.fullmatch(r"(?:[a-z0-9][a-z0-9_-]{0,63})?", text):
        raise ValueError("it should be small letters, digits, - and _, beginning with a letter or digit, such as shop-")
    return text


_elasticsearch = partial(setting, group="Elasticsearch")


class ElasticsearchSettings(FeatureSettings):
    elasticsearch_url: WebUrl | None = _elasticsearch(
        None, "Elasticsearch or OpenSearch, as https://host:9200; product searches then use it.", common=True
    )
    elasticsearch_username: str | None = _elasticsearch(None, "User to sign in as.")
    elasticsearch_password: SecretStr | None = _elasticsearch(None, "Password of this user.")
    elasticsearch_api_key: SecretStr | None = _elasticsearch(
        None, "API key (Elasticsearch), in its encoded form, instead of user and password."
    )
    elasticsearch_ca_file: Location | None = _elasticsearch(
        None, "File with the certificates that sign the cluster's own; without it, the system's."
    )
    elasticsearch_prefix: Annotated[str, AfterValidator(_prefix)] = _elasticsearch(
        "", "Text before the name of every alias and index: ledgers that share a cluster need one each."
    )
    elasticsearch_timeout_seconds: float = _elasticsearch(30.0, "Time limit of an answer.", gt=0, le=600)
