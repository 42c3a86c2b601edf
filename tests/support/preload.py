"""Loads what an application loads while it opens, beyond its imports: the modules of every pipeline that ships."""

from forager.config import new_settings
from forager.features import all_features
from forager.wiring import build_pipelines

build_pipelines(new_settings(), all_features())
