"""Loads what a command and an application load while they run, beyond their imports: pipelines, API, table of ZIPs."""

from forager.api import serve as serve
from forager.cli import main as main
from forager.config import new_settings
from forager.features import all_features
from forager.pipelines.places.zips import shipped_zips
from forager.wiring import build_pipelines

build_pipelines(new_settings(), all_features())
shipped_zips()
