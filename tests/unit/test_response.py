"""The properties of a response."""

from datetime import UTC, datetime

import pytest

from forager.core.http import Response
from forager.fetch.browser.gate import GateTarget

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


@pytest.mark.parametrize(
    ("url", "subject"),
    [
        ("http://127.0.0.1:8080/jobs/1?token=x", "127.0.0.1:8080/jobs/1"),
        ("https://user:secret@Shop.example:8443/p#part", "shop.example:8443/p"),
        ("https://shop.example:443/p", "shop.example/p"),
        ("http://[2606:4700::1]:8080/p", "[2606:4700::1]:8080/p"),
        ("", "The site"),
    ],
)
def test_a_message_names_the_port_of_a_site_and_neither_query_nor_login(url: str, subject: str) -> None:
    assert Response(url, 404, {}, b"", AT, 1).subject() == subject


def test_a_message_about_a_connection_of_a_browser_names_the_port() -> None:
    assert GateTarget("127.0.0.1", 8080, tunnel=True).name == "127.0.0.1:8080"
    assert GateTarget("::1", 8080, tunnel=True).name == "[::1]:8080"
    assert GateTarget("shop.example", 443, tunnel=True).name == "shop.example"
