"""What `forager doctor` reports about the places pipeline. Changes nothing, and never raises."""

from collections.abc import Iterator

from forager.core.errors import ForagerError
from forager.kit.cli.finding import Finding
from forager.kit.cli.render import some
from forager.kit.settings import SettingsTree
from forager.pipelines.places.settings import PlacesSettings
from forager.pipelines.places.zips import ZipTable


def checks(settings: SettingsTree) -> Iterator[Finding]:
    own = settings.of(PlacesSettings)
    if own.serper_api_key is None:
        remedy = "Set SERPER_API_KEY to run places jobs; `forager demo` and `forager places plan` need none."
        yield Finding("serper", "note", "no key is set", remedy)
    else:
        yield Finding("serper", "ok", f"a key is set; {own.serper_rate}/s at {own.serper_base_url}")
    if own.zip_table is None:
        return
    if isinstance(own.zip_table, str):
        yield Finding("zip table", "note", f"{own.zip_table} is read with the first job")
        return
    try:
        table = ZipTable.from_csv(own.zip_table)
        yield Finding("zip table", "ok", f"{own.zip_table}, {some(len(table.states), 'state')}")
    except (ForagerError, OSError, ValueError) as error:
        yield Finding("zip table", "problem", str(error), "Correct the file, or unset FORAGER_ZIP_TABLE.")
