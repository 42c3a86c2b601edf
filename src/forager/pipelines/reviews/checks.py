"""What `forager doctor` reports about the reviews pipeline. Changes nothing, and never raises."""

from collections.abc import Iterator

from forager.core.errors import ForagerError
from forager.kit.cli.finding import Finding
from forager.kit.settings import SettingsTree
from forager.pipelines.reviews.settings import ReviewsSettings
from forager.pipelines.reviews.wiring import recorded_in


def checks(settings: SettingsTree) -> Iterator[Finding]:
    """Check the folder of recorded answers, if one is set. Google itself needs nothing before a job brings a token."""
    folder = settings.of(ReviewsSettings).google_mock_folder
    if folder is None:
        return
    try:
        google = recorded_in(folder)
        yield Finding("google", "note", f"answers are read from {folder}; accounts: {len(google.listed)}")
    except ForagerError as error:
        yield Finding("google", "problem", error.message, "Correct the file, or unset FORAGER_GOOGLE_MOCK_FOLDER.")
