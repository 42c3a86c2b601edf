"""Loads what a command and an application load while they run, beyond their imports: pipelines, API, table of ZIPs."""

from forager.api import serve as serve
from forager.app.config import new_settings
from forager.app.features import all_features
from forager.app.wiring import build_pipelines
from forager.pipelines.places.zips import shipped_zips

build_pipelines(new_settings(), all_features())
shipped_zips()
