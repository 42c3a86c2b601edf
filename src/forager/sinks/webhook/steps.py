"""One try to deliver a message. A URL may contain a token, so everything that is stored about a try names only the
host."""

from collections.abc import Mapping

from forager.core.errors import ForagerError, Permanent, RateLimited, Refused, Transient, Unconfigured
from forager.core.http import Fetch, Request, Response, SignRef
from forager.core.outcome import Done, Halt, Outcome
from forager.core.reasons import ErrorType
from forager.sinks.webhook.task import DEFAULT_RECEIVER, Delivery

SECRET = "FORAGER_WEBHOOK_SECRET"  # noqa: S105 - its name
TIMEOUT = 10.0
MOST_ANSWER = 1024 * 1024
GIVEN_UP_AFTER = 7 * 24 * 3600.0


class Deliver:
    """The delivery step. `default_url` is the current default receiver."""

    def __init__(self, default_url: str | None) -> None:
        self._default_url = default_url

    async def __call__(self, delivery: Delivery, fetch: Fetch) -> Outcome:
        response = await _send(self._request(delivery), delivery, fetch)
        status, facts = response.status, _facts(response)
        if 200 <= status < 300:
            return Done(facts=facts, cost=0)
        message = f"{delivery.host} answered {status}."
        if status == 410:
            return Halt(f"{message} It wants no more webhooks: deliveries to it wait until the job is resumed.")
        told = response.retry_after()
        if (status == 429 or (status == 503 and told is not None)) and not _too_old(delivery, response):
            raise RateLimited(message, retry_after=told, facts=facts)
        raise Transient(message, facts=facts, error_type=ErrorType.HTTP)

    def _request(self, delivery: Delivery) -> Request:
        url = self._default_url if delivery.receiver == DEFAULT_RECEIVER else delivery.receiver
        if not url:
            raise Unconfigured(
                "FORAGER_DEFAULT_WEBHOOK_URL is no longer set. Set it, restart Forager if it runs, and resume the"
                " job; or cancel the job."
            )
        return Request(
            url,
            "POST",
            headers={"Content-Type": "application/json"},
            body=delivery.body.encode(),
            sign=SignRef(SECRET, delivery.id),
            timeout=TIMEOUT,
            max_bytes=MOST_ANSWER,
            max_redirects=0,
        )


async def _send(request: Request, delivery: Delivery, fetch: Fetch) -> Response:
    try:
        return await fetch(request)
    except ForagerError as error:
        if error.where is not None:  # the fetcher's, with the URL's path
            error.where = delivery.host
        if isinstance(error, Permanent) and not isinstance(error, Refused):
            # For example an expired certificate: that is repaired within days, and the message is still wanted then.
            raise Transient(error.message, reason=error.reason, error_type=error.error_type) from None
        raise


def _too_old(delivery: Delivery, response: Response) -> bool:
    """Return whether a message is too old to be tried again. A 429 burns no attempt, so it needs this limit."""
    return response.at.timestamp() - delivery.at / 1000 > GIVEN_UP_AFTER


def _facts(response: Response) -> Mapping[str, int]:
    return {"api_status": response.status, "api_ms": response.elapsed_ms}
