"""A request as a value: what its copies carry."""

from dataclasses import fields, replace

from forager.core.http import LoginRef, Request, SecretRef


def test_a_request_with_a_callback_for_its_sending_is_otherwise_the_same() -> None:
    async def hop(url: str) -> None:
        raise AssertionError(url)

    def left() -> None:
        raise AssertionError

    asked = Request.post_json("https://api.example/places", {"q": "bars"}, auth=SecretRef("KEY"), timeout=3.0)
    asked = replace(asked, login=LoginRef("w", "p"), site=True, proxy=7, block=frozenset({"font"}), on_hop=hop)

    assert asked.telling(left) == replace(asked, on_leave=left)
    assert [each.name for each in fields(Request)][-2:] == ["on_leave", "on_hop"]
