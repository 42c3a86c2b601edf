"""The verifier accepts what was signed, as it was signed, in its time, once; and nothing else."""

import base64
import hashlib
import hmac
from datetime import UTC, datetime, timedelta

import pytest

from forager.sinks.webhook.signing import (
    BODY_SIGNATURE,
    SEPARATOR,
    SIGNATURE,
    NotFresh,
    Replayed,
    Unsigned,
    WebhookError,
    WrongSignature,
    sign,
    sign_with_each,
    verify,
)

NOW = datetime(2026, 3, 14, 12, tzinfo=UTC)
AT = int(NOW.timestamp())
SECRET = "it-is-no-secret-any-more"
BODY = b'{"job_id":"6f1f","status":"completed","summary":{"total":1,"completed":1,"failed":0},"results":null}'


def signed(secret: str = SECRET, message: str = "job_1_2", at: int = AT, body: bytes = BODY) -> dict[str, str]:
    return sign(secret, message, at, body)


@pytest.mark.parametrize(
    ("secret", "key"),
    [
        ("plain text, as it is", b"plain text, as it is"),
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")),
        ("whsec_not base64!", b"whsec_not base64!"),
    ],
)
def test_the_headers_are_those_of_the_two_definitions__S14(secret: str, key: bytes) -> None:
    headers = sign(secret, "msg_1", 1614265330, BODY)
    over_all = hmac.new(key, b"msg_1.1614265330." + BODY, hashlib.sha256).digest()
    assert headers == {
        "X-Webhook-Signature": hmac.new(secret.encode(), BODY, hashlib.sha256).hexdigest(),
        "webhook-id": "msg_1",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1," + base64.b64encode(over_all).decode(),
    }


def test_a_vector_of_the_standard_webhooks_project_is_signed_alike__S14() -> None:
    headers = sign(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1614265330,
        b'{"test": 2432232314}',
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_what_was_signed_is_accepted_however_headers_are_spelled__S14() -> None:
    for rename in (str, str.lower, str.upper, str.title):
        headers = {rename(name): f" {value} " for name, value in signed().items()}
        assert verify(headers, BODY, [SECRET], NOW) == "job_1_2"


@pytest.mark.parametrize("seconds", [-300, -1, 0, 1, 300])
def test_five_minutes_either_way_are_accepted__S14(seconds: int) -> None:
    assert verify(signed(at=AT + seconds), BODY, [SECRET], NOW)


@pytest.mark.parametrize("seconds", [-86_400, -301, 301, 86_400])
def test_more_than_five_minutes_either_way_are_refused__S14(seconds: int) -> None:
    with pytest.raises(NotFresh, match="5 minutes"):
        verify(signed(at=AT + seconds), BODY, [SECRET], NOW)


def test_a_changed_byte_anywhere_is_refused__S14() -> None:
    headers = signed()
    for position in range(len(BODY)):
        changed = bytearray(BODY)
        changed[position] ^= 1
        with pytest.raises(WrongSignature):
            verify(headers, bytes(changed), [SECRET], NOW)
    for name, value in headers.items():
        for position in range(len(value)):
            wrong = value[:position] + ("1" if value[position] != "1" else "2") + value[position + 1 :]
            with pytest.raises(WebhookError):
                verify({**headers, name: wrong}, BODY, [SECRET], NOW)


def test_parts_of_two_true_messages_do_not_make_a_third__S14() -> None:
    one, other = signed(message="a"), signed(message="b", at=AT + 1, body=b"{}")
    for name in one:
        with pytest.raises(WrongSignature):
            verify({**one, name: other[name]}, BODY, [SECRET], NOW)


def test_an_id_is_not_accepted_twice_but_a_repeat_is_distinguished_from_a_forgery__S14() -> None:
    seen: set[str] = set()
    seen.add(verify(signed(), BODY, [SECRET], NOW, seen))
    later = NOW + timedelta(hours=5)
    with pytest.raises(Replayed, match="job_1_2"):  # the sender tried again: a fresh time, the same id
        verify(signed(at=int(later.timestamp())), BODY, [SECRET], later, seen)
    with pytest.raises(WrongSignature):
        verify({**signed(), "webhook-signature": "v1,AAAA"}, BODY, [SECRET], NOW, seen)


def test_two_secrets_are_accepted_while_one_takes_the_place_of_the_other__S14() -> None:
    for secret in ("old", "new"):
        assert verify(signed(secret), BODY, ["new", "old"], NOW)
    with pytest.raises(WrongSignature):
        verify(signed("third"), BODY, ["new", "old"], NOW)


def test_while_the_sender_changes_its_secret_either_is_enough__SC_13() -> None:
    headers = sign_with_each(SEPARATOR.join(["old-secret", "new-secret"]), "job_1_2", AT, BODY)
    assert headers[SIGNATURE].count("v1,") == 2
    for known in ("old-secret", "new-secret"):
        assert verify(headers, BODY, [known], NOW) == "job_1_2"
    with pytest.raises(WrongSignature):
        verify(headers, BODY, ["another"], NOW)
    assert headers[BODY_SIGNATURE] == signed("old-secret")[BODY_SIGNATURE]


def test_one_of_several_signatures_is_enough_and_foreign_versions_are_passed_over__S14() -> None:
    headers = signed()
    both = f"v1a,abc {signed('other')['webhook-signature']} {headers['webhook-signature']}"
    assert verify({**headers, "webhook-signature": both}, BODY, [SECRET], NOW)
    with pytest.raises(Unsigned, match="version 1"):
        verify({**headers, "webhook-signature": "v2,abc"}, BODY, [SECRET], NOW)


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_missing_header_is_named__S14(name: str, value: str | None) -> None:
    headers = {k: v for k, v in signed().items() if k != name}
    with pytest.raises(Unsigned, match=name):
        verify(headers if value is None else {**headers, name: value}, BODY, [SECRET], NOW)


@pytest.mark.parametrize("timestamp", ["soon", "-1", "1e9", "١٢٣", "0x10", "1" * 13, "12.5"])
def test_an_invalid_time_is_refused__S14(timestamp: str) -> None:
    with pytest.raises(WebhookError):
        verify({**signed(), "webhook-timestamp": timestamp}, BODY, [SECRET], NOW)


def test_the_signature_over_the_body_alone_protects_against_nothing_but_change__S14() -> None:
    """A reader of the body alone does not see id and time; `verify` needs the other one."""
    with pytest.raises(Unsigned):
        verify({"X-Webhook-Signature": signed()["X-Webhook-Signature"]}, BODY, [SECRET], NOW)


def test_no_message_shows_a_secret_or_a_signature() -> None:
    for headers in ({}, {**signed(), "webhook-signature": "v1,x"}, signed(at=0)):
        with pytest.raises(WebhookError) as refused:
            verify(headers, BODY, [SECRET], NOW)
        assert SECRET not in str(refused.value)
        assert signed()["X-Webhook-Signature"] not in str(refused.value)


def test_an_empty_secret_is_no_secret() -> None:
    with pytest.raises(ValueError, match="secret"):
        sign("", "a", AT, BODY)
    for none in ([], [""]):
        with pytest.raises(ValueError, match="secret"):
            verify(signed(), BODY, none, NOW)
