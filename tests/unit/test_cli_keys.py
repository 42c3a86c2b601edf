"""`forager keys …` on a store of its own: a key is shown once, listed without its text, and revoked."""

from tests.support.cli import Forager


def test_a_key_is_made_listed_and_revoked(forager: Forager) -> None:
    made = forager("keys", "add", "grafana", "--role", "viewer")
    assert made.code == 0, made.err
    key = made.out.strip()
    assert key.startswith("forager_")
    listed = forager("keys", "list")
    assert "grafana" in listed.out
    assert "service key" in listed.out
    assert key not in listed.out
    assert forager("keys", "add", "grafana").code != 0
    assert "grafana" in forager("keys", "revoke", "grafana").out
    assert [each["name"] for each in forager("keys", "list", "--json").data] == ["service key"]
    wrong = forager("keys", "revoke", "grafana")
    assert wrong.code != 0
    assert "forager keys list" in wrong.err
    done = forager("keys", "actions", "--json").data
    assert [each["method"] for each in done][-1] == "POST"
    assert {each["key_name"] for each in done} == {"service key"}


def test_an_unknown_role_is_refused_with_the_roles(forager: Forager) -> None:
    refused = forager("keys", "add", "x", "--role", "boss")
    assert refused.code == 2
    assert "operator" in refused.err
