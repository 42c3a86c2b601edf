"""`/docs`: the OpenAPI document as one HTML page. The page loads no other file and runs no script, so it works
offline."""

import asyncio
import base64
import hashlib

from starlette.requests import Request
from starlette.responses import Response

from forager.api.docs_html import page_of
from forager.api.docs_style import STYLE
from forager.kit.http.routes import Router

_ONLY_OURS = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_ONLY_OURS}'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}


def docs_router() -> Router:
    router = Router()
    made: list[bytes] = []

    @router.get("/docs", include_in_schema=False)
    async def show_docs(request: Request) -> Response:
        """Rendered at the first request, then kept."""
        if not made:
            made.append(await asyncio.to_thread(lambda: page_of(request.app.openapi()).encode()))
        return Response(made[0], headers=HEADERS, media_type="text/html")

    return router
