"""Errors in the shapes of Google's APIs. Pure."""

from typing import Any

import orjson

from forager.sandbox.upstream import Reply
from forager.sandbox.wire import HTML

SERVICE_HOSTS = {
    "accounts": "mybusinessaccountmanagement.googleapis.com",
    "locations": "mybusinessbusinessinformation.googleapis.com",
    "reviews": "mybusiness.googleapis.com",
}
_TITLES = {
    "accounts": "My Business Account Management API",
    "locations": "My Business Business Information API",
    "reviews": "Google My Business API",
}
_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
_HELP = "type.googleapis.com/google.rpc.Help"
_CREDENTIALS = (
    "Expected OAuth 2 access token, login cookie or other valid authentication credential. "
    "See https://developers.google.com/identity/sign-in/web/devconsole-project."
)


def error(code: int, status: str, message: str, *details: dict[str, Any], headers: bytes = b"") -> Reply:
    body: dict[str, Any] = {"code": code, "message": message, "status": status}
    if details:
        body["details"] = details
    return Reply(code, orjson.dumps({"error": body}), headers=headers)


def invalid(field: str, description: str) -> Reply:
    violation = {"field": field, "description": description}
    detail = {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation]}
    return error(400, "INVALID_ARGUMENT", "Request contains an invalid argument.", detail)


def unauthenticated(service: str, method: str, reason: str) -> Reply:
    """`reason` is CREDENTIALS_MISSING, ACCESS_TOKEN_TYPE_UNSUPPORTED or ACCESS_TOKEN_EXPIRED."""
    begin = (
        "Request is missing required authentication credential. "
        if reason == "CREDENTIALS_MISSING"
        else "Request had invalid authentication credentials. "
    )
    detail = {
        "@type": _INFO,
        "reason": reason,
        "domain": "googleapis.com",
        "metadata": {"service": SERVICE_HOSTS[service], "method": method},
    }
    return error(401, "UNAUTHENTICATED", begin + _CREDENTIALS, detail, headers=b"WWW-Authenticate: Bearer\r\n")


def denied() -> Reply:
    return error(403, "PERMISSION_DENIED", "The caller does not have permission")


def service_disabled(service: str, project: str) -> Reply:
    host, title = SERVICE_HOSTS[service], _TITLES[service]
    url = f"https://console.developers.google.com/apis/api/{host}/overview?project={project}"
    message = (
        f"{title} has not been used in project {project} before or it is disabled. Enable it by visiting {url} then "
        "retry. If you enabled this API recently, wait a few minutes for the action to propagate to our systems and "
        "retry."
    )
    metadata = {
        "service": host,
        "consumer": f"projects/{project}",
        "activationUrl": url,
        "serviceTitle": title,
        "containerInfo": project,
    }
    return error(
        403,
        "PERMISSION_DENIED",
        message,
        {"@type": _INFO, "reason": "SERVICE_DISABLED", "domain": "googleapis.com", "metadata": metadata},
        {"@type": "type.googleapis.com/google.rpc.LocalizedMessage", "locale": "en-US", "message": message},
        {"@type": _HELP, "links": [{"description": "Google developers console API activation", "url": url}]},
    )


def not_found() -> Reply:
    return error(404, "NOT_FOUND", "Requested entity was not found.")


def quota_exceeded(service: str, project: str, value: int, retry_after: str | None) -> Reply:
    """429. A `value` of 0 means that the project was never approved, so that waiting is useless."""
    host = SERVICE_HOSTS[service]
    message = (
        "Quota exceeded for quota metric 'Requests' and limit 'Requests per minute' of service "
        f"'{host}' for consumer 'project_number:{project}'."
    )
    metadata = {
        "service": host,
        "quota_metric": f"{host}/default_requests",
        "quota_limit": "DefaultRequestsPerMinutePerProject",
        "quota_limit_value": str(value),
        "quota_unit": "1/min/{project}",
        "quota_location": "global",
        "consumer": f"projects/{project}",
    }
    link = {"description": "Request a higher quota limit.", "url": "https://cloud.google.com/docs/quotas/help"}
    headers = f"Retry-After: {retry_after}\r\n".encode() if retry_after is not None else b""
    return error(
        429,
        "RESOURCE_EXHAUSTED",
        message,
        {"@type": _INFO, "reason": "RATE_LIMIT_EXCEEDED", "domain": "googleapis.com", "metadata": metadata},
        {"@type": _HELP, "links": [link]},
        headers=headers,
    )


def internal() -> Reply:
    return error(500, "INTERNAL", "Internal error encountered.")


def unavailable() -> Reply:
    return error(503, "UNAVAILABLE", "The service is currently unavailable.")


def invalid_grant() -> Reply:
    """The token endpoint has another envelope."""
    body = {"error": "invalid_grant", "error_description": "Token has been expired or revoked."}
    return Reply(400, orjson.dumps(body))


def no_such_page(path: str) -> Reply:
    """Return the HTML page for a path that is not a method of the API."""
    text = (
        "<!DOCTYPE html><html lang=en><title>Error 404 (Not Found)!!1</title><p><b>404.</b> <ins>That’s an error.</ins>"
        f"<p>The requested URL <code>{path[:200]}</code> was not found on this server.</html>"
    )
    return Reply(404, text.encode(), HTML)
