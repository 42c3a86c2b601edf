"""Every pipeline has the same commands for its records, on a store with a few of them."""

from pathlib import Path

import pytest

from forager.app.features import FEATURES
from forager.cli.feature_commands import FeatureCommand
from forager.cli.record_commands import _columns
from tests.support.cli import Forager

WITH_KIND = [feature for feature in FEATURES if feature.kind is not None]


@pytest.mark.parametrize("feature", WITH_KIND, ids=lambda feature: feature.name)
def test_the_group_of_a_pipeline_has_the_commands_of_records_and_keeps_its_own(feature: object) -> None:
    from forager.sdk.feature import Feature

    assert isinstance(feature, Feature)
    assert feature.commands is not None
    own = FeatureCommand(feature.name, "", feature.commands).loaded().commands
    all_ = FeatureCommand(feature.name, "", feature.commands, feature.kind).loaded().commands

    assert {"list", "show", "history", "changes", "export"} <= set(all_)
    assert set(own) <= set(all_)
    assert [
        name for name in own if getattr(all_[name].callback, "__module__", "") == "forager.cli.record_commands"
    ] == []


def test_the_columns_of_a_list_begin_with_the_key_and_the_fields_that_people_look_for() -> None:
    rows = [{"version": 1, "decay": 0.5, "listing_key": "a:1", "units": [], "city": "Boston", "title": "Mill House"}]
    assert _columns(rows) == ["listing_key", "title", "city", "decay"]


def test_an_empty_store_has_no_records_and_an_export_of_it_is_empty(forager: Forager, tmp_path: Path) -> None:
    assert forager("db", "upgrade").code == 0
    listed = forager("places", "list")
    assert (listed.code, listed.out) == (0, "")
    assert "No records of the kind place." in listed.err
    assert forager("places", "list", "--json").data == []
    assert forager("reviews", "export").out == ""
    assert forager("places", "show", "nope").code == 4
