"""The settings of BigQuery: which project and dataset, and how to sign in; and what a row may choose."""

import re
from functools import partial
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from forager.sdk.settings import FeatureSettings, Location, SettingsTree, WebUrl, setting

_bigquery = partial(setting, group="BigQuery")


def _project(name: str) -> str:
    if not re.fullmatch(r"(?:[a-z0-9.-]{1,63}:)?[a-z0-9][a-z0-9-]{0,62}", name):
        raise ValueError("it should be a project id of small letters, digits and hyphens, such as my-project-1234")
    return name


def _dataset(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_]{1,1024}", name):
        raise ValueError("it should be the name of a dataset: letters, digits and _, such as raw_data")
    return name


def _region(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9-]{1,63}", name):
        raise ValueError("it should be a location such as EU or us-central1")
    return name


class BigQuerySettings(FeatureSettings):
    bigquery_project_id: Annotated[str, AfterValidator(_project)] | None = _bigquery(
        None, "BigQuery project; unset disables the mirror.", seed="BIGQUERY_PROJECT_ID", common=True
    )
    bigquery_dataset: Annotated[str, AfterValidator(_dataset)] = _bigquery(
        "raw_data", "Dataset of the mirror; it is created if it does not exist."
    )
    bigquery_location: Annotated[str, AfterValidator(_region)] | None = _bigquery(
        None, "Location of a dataset that is created, such as EU; without it, Google's default."
    )
    google_application_credentials: Location | None = _bigquery(
        None,
        "File with the service account; without it, the machine's own account.",
        seed="GOOGLE_APPLICATION_CREDENTIALS",
        common=True,
    )
    bigquery_url: WebUrl | None = _bigquery(
        None, "URL of another BigQuery API, such as an emulator; without credentials, it is used anonymously."
    )
    bigquery_timeout_seconds: float = _bigquery(120.0, "Time limit of a load or a statement.", gt=0, le=3_600)


class BigQueryOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    every_seconds: float = Field(
        default=10.0, ge=0.02, le=3_600, description="Seconds for which changes are collected: fewer, larger batches."
    )


def mirrors(settings: SettingsTree) -> bool:
    """Return whether there is a project to which jobs and tasks are mirrored."""
    return settings.of(BigQuerySettings).bigquery_project_id is not None
