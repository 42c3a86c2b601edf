"""Signs and verifies webhooks, for receivers as well as for Forager itself.

Needs only the standard library. A receiver calls `verify` with the body exactly as it arrived, byte by byte, before
parsing it. No secret is stored or shown here.

WebhookError
├── Unsigned         a header that a signature needs is missing or cannot be read
├── WrongSignature   it was signed with another secret, or changed on the way
├── NotFresh         its time is too far from ours: a copy of an old one, or a wrong clock
└── Replayed         true, but its id was dealt with before: answer 200 and do nothing
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Container, Mapping, Sequence
from datetime import datetime

from forager.core.errors import ForagerError

TOLERANCE = 300.0
"""Maximum difference between a message's time and the receiver's, in seconds."""
BODY_SIGNATURE = "X-Webhook-Signature"
"""Lower-case hex HMAC-SHA256 over the body alone."""
ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
"""The headers of Standard Webhooks. The signature covers id, time and body, so that none of them can be exchanged."""
SECRET_PREFIX = "whsec_"  # noqa: S105 - the prefix of a secret, not a secret
SEPARATOR = "\0"
"""Between two secrets: no environment variable can hold it."""
_SECONDS = re.compile(r"[0-9]{1,12}", re.ASCII)
_ID = re.compile(r"[\x21-\x7e]{1,256}", re.ASCII)


class WebhookError(ForagerError):
    """The webhook cannot be accepted."""


class Unsigned(WebhookError):
    """The webhook is not signed."""


class WrongSignature(WebhookError):
    """No signature of the webhook matches its content with a known secret."""


class NotFresh(WebhookError):
    """The webhook is too old, or from the future."""


class Replayed(WebhookError):
    """The webhook was already processed."""


def sign(secret: str, id: str, timestamp: int, body: bytes) -> dict[str, str]:  # noqa: A002 - the header's own word
    """Return the headers for a body. `timestamp` is the time of sending, in Unix seconds."""
    if not secret:
        raise ValueError("a webhook cannot be signed with an empty secret.")
    if not _ID.fullmatch(id) or timestamp < 0:
        raise ValueError("the id of a webhook is 1 to 256 printable characters, its timestamp is not negative.")
    return {
        BODY_SIGNATURE: _of_body(secret, body),
        ID: id,
        TIMESTAMP: str(timestamp),
        SIGNATURE: f"v1,{_of_message(secret, id, str(timestamp), body)}",
    }


def sign_with_each(secrets: str, id: str, timestamp: int, body: bytes) -> dict[str, str]:  # noqa: A002 - see above
    """Like `sign`, with one secret, or with two joined by `SEPARATOR` while one takes the place of the other.

    The message then has a `webhook-signature` of each; the signature over the body alone, of which there can be only
    one, is of the first.
    """
    first, *others = (sign(secret, id, timestamp, body) for secret in secrets.split(SEPARATOR))
    return {**first, SIGNATURE: " ".join([first[SIGNATURE], *(other[SIGNATURE] for other in others)])}


def verify(
    headers: Mapping[str, str],
    body: bytes,
    secrets: Sequence[str],
    now: datetime,
    seen: Container[str] | None = None,
) -> str:
    """Verify a webhook and return its id. Raises a `WebhookError` with the reason if it must not be accepted.

    `secrets` are all accepted secrets: two while you change from one to the next. `seen` are the ids handled before;
    add the returned id once your own work is done, so that a repeated delivery raises `Replayed`.
    """
    known = [secret for secret in secrets if secret]
    if not known:
        raise ValueError("give at least one secret.")
    given = {name.lower(): value.strip() for name, value in headers.items()}
    message, timestamp = _needed(given, ID, _ID), _needed(given, TIMESTAMP, _SECONDS)
    if not _is_signed(given.get(SIGNATURE), known, message, timestamp, body):
        raise WrongSignature("The webhook-signature fits no known secret: another secret, or a changed message.")
    # Not strictly needed after the check above, but a message with one wrong signature is not what was sent. While the
    # sender changes its secret, there are several signatures of the message, and this one may be of an unknown secret.
    sent = given.get(BODY_SIGNATURE.lower()) if given[SIGNATURE].count("v1,") < 2 else None
    if sent is not None and not _any_equal([sent], [_of_body(secret, body) for secret in known]):
        raise WrongSignature(f"The {BODY_SIGNATURE} fits no known secret: another secret, or a changed body.")
    if abs(now.timestamp() - int(timestamp)) > TOLERANCE:
        raise NotFresh(f"The webhook's time is more than {TOLERANCE / 60:.0f} minutes away from ours.")
    if seen is not None and message in seen:
        raise Replayed(f"The webhook {message} was dealt with before.")
    return message


def _needed(given: Mapping[str, str], name: str, form: re.Pattern[str]) -> str:
    value = given.get(name)
    if not value:
        raise Unsigned(f"The header {name} is missing.")
    if not form.fullmatch(value):
        raise Unsigned(f"The header {name} cannot be read.")
    return value


def _is_signed(sent: str | None, secrets: Sequence[str], message: str, timestamp: str, body: bytes) -> bool:
    """Return whether one of the signatures is valid. There may be several, also of versions unknown to us."""
    if not sent:
        raise Unsigned(f"The header {SIGNATURE} is missing.")
    ours = [value for version, _, value in (each.partition(",") for each in sent.split()) if version == "v1"]
    if not ours:
        raise Unsigned(f"The header {SIGNATURE} holds no signature of version 1.")
    return _any_equal(ours, [_of_message(secret, message, timestamp, body) for secret in secrets])


def _any_equal(sent: Sequence[str], expected: Sequence[str]) -> bool:
    """Compare in constant time: every candidate, each to its end."""
    equal = False
    for one in sent:
        for other in expected:
            equal |= hmac.compare_digest(one.encode(), other.encode())
    return equal


def _of_body(secret: str, body: bytes) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def _of_message(secret: str, message: str, timestamp: str, body: bytes) -> str:
    signed = b".".join((message.encode(), timestamp.encode(), body))
    return base64.b64encode(hmac.digest(_key(secret), signed, "sha256")).decode()


def _key(secret: str) -> bytes:
    """Return the key bytes. A secret that begins with `whsec_` is base64, as in Standard Webhooks; any other is used as
    it is."""
    if not secret.startswith(SECRET_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return secret.encode()
