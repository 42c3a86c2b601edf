"""Who may call: whoever sends the service key in `X-Service-Key`. Deny by default; three routes are open, by name.

Runs before anything of the request is looked at. The key is compared in constant time and never logged or echoed.
"""

import hmac

from starlette.types import ASGIApp, Receive, Scope, Send

from forager.api.envelope import refusal

HEADER = b"x-service-key"
OPEN_PATHS = frozenset({"/health", "/readiness", "/metrics"})


class ServiceKey:
    """The key that callers must send. A revoked one also ends the streams that were opened with it."""

    def __init__(self, key: str) -> None:
        self.replace(key)

    def replace(self, key: str) -> None:
        if not key:
            raise ValueError("an empty service key would let everybody in")
        self._key = key.encode()

    def accepts(self, scope: Scope) -> bool:
        """One header, and it is the key. Two are refused: whichever a proxy looked at, it was not both."""
        sent = [value for name, value in scope["headers"] if name == HEADER]
        return len(sent) == 1 and hmac.compare_digest(sent[0], self._key)


class KeyGate:
    def __init__(self, app: ASGIApp, key: ServiceKey) -> None:
        self._app = app
        self._key = key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008, "reason": "There are no websockets here."})
        elif scope["path"] in OPEN_PATHS or self._key.accepts(scope):
            await self._app(scope, receive, send)
        else:
            denied = refusal(
                scope,
                401,
                "unauthorized",
                "Send the service key in the header X-Service-Key. It is in service.key in the data folder.",
                headers={"WWW-Authenticate": "X-Service-Key"},
            )
            await denied(scope, receive, send)
