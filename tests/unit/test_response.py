"""The properties of a response."""

from datetime import UTC, datetime

import pytest

from forager.core.http import Response

AT = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "wait"),
    [
        ("7", 7.0),
        (" 2.5 ", 2.5),
        ("0", 0.0),
        ("9" * 40, 999_999_999.0),
        ("Sun, 01 Mar 2026 12:00:30 GMT", 30.0),
        ("Sun, 01 Mar 2026 12:00:30 -0000", 30.0),
        ("Sun, 01 Mar 2026 13:00:30 +0100", 30.0),
        ("Sun, 01 Mar 2026 11:00:00 GMT", 0.0),
        ("-5", None),
        ("soon", None),
        ("٧", None),
        ("", None),
        ("Sun, 01 Mar 99999999999999 12:00:30 GMT", None),
    ],
)
def test_retry_after_is_read_in_both_forms_and_nonsense_is_ignored(said: str, wait: float | None) -> None:
    assert Response("https://a.test/", 429, {"retry-AFTER": said}, b"", AT, 1).retry_after() == wait


def test_an_answer_without_retry_after_has_none() -> None:
    assert Response("https://a.test/", 429, {}, b"", AT, 1).retry_after() is None
