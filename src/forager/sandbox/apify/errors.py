"""Errors in Apify's envelope. Pure."""

import orjson

from forager.sandbox.upstream import Reply


def error(status: int, kind: str, message: str) -> Reply:
    return Reply(status, orjson.dumps({"error": {"type": kind, "message": message}}))


def invalid_input(problem: str) -> Reply:
    return error(400, "invalid-input", f"Input is not valid: {problem}")


def invalid_value(message: str) -> Reply:
    return error(400, "invalid-value", message)


def no_token() -> Reply:
    return error(401, "token-not-provided", "Authentication token was not provided")


def wrong_token() -> Reply:
    return error(401, "user-or-token-not-found", "User was not found or authentication token is not valid")


def no_memory(limit: int) -> Reply:
    message = f"By launching this job you will exceed the memory limit of {limit}MB for all your Actor runs and builds."
    return error(402, "actor-memory-limit-exceeded", message)


def no_credit() -> Reply:
    return error(
        402, "not-enough-usage-to-run-paid-actor", "Your remaining usage is not enough to run this paid Actor."
    )


def too_many_runs(status: int, limit: int) -> Reply:
    message = f"You have exceeded the limit of {limit} concurrent Actor runs."
    return error(status, "concurrent-runs-limit-exceeded", message)


def not_rented() -> Reply:
    message = "You must rent a paid Actor in order to run it after its free trial has expired."
    return error(403, "actor-is-not-rented", message)


def no_actor() -> Reply:
    return error(404, "actor-not-found", "Actor was not found")


def no_record() -> Reply:
    return error(404, "record-not-found", "The requested resource was not found")


def no_page() -> Reply:
    return error(404, "page-not-found", "We have bad news: there is no API endpoint at this URL.")


def too_fast(limit: int) -> Reply:
    return error(429, "rate-limit-exceeded", f"You have exceeded the rate limit of {limit} requests per second")


def internal() -> Reply:
    return error(500, "internal-server-error", "Internal server error")


def unavailable() -> Reply:
    return error(503, "internal-server-error", "The service is temporarily unavailable")


def run_timeout() -> Reply:
    return error(408, "run-timeout-exceeded", "Actor run exceeded the timeout of 300 seconds for this API endpoint")
