"""The features of this installation: our own pipelines, and those that other packages offer by an entry point.

A pipeline of ours is one line in `FEATURES`. Importing this module loads no pipeline: a feature only names its edges.
"""

from functools import cache
from importlib.metadata import entry_points

from forager.kit.feature import ENTRY_POINTS, Feature
from forager.pipelines.places.feature import feature as places
from forager.pipelines.scrape.feature import feature as scrape

FEATURES: tuple[Feature, ...] = (places, scrape)


@cache
def all_features() -> tuple[Feature, ...]:
    """Return our features, then those of other packages. Raises `ValueError` if two have the same name."""
    features = (*FEATURES, *(point.load() for point in entry_points(group=ENTRY_POINTS)))
    names = [each.name for each in features]
    if doubles := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"Two features are named {doubles[0]!r}. Uninstall one of the packages that offer them.")
    return features
