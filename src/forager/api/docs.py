"""`/docs`: the OpenAPI document as one HTML page, with a form to try each call.

The page loads no other file, so it works offline, and runs no script but its own.
"""

import asyncio
import base64
import hashlib

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from forager.api.docs_html import TICKET, page_of
from forager.api.docs_script import SCRIPT
from forager.api.docs_style import STYLE
from forager.kit.http.routes import Router


def _hash_of(text: str) -> str:
    """The form in which the policy below allows exactly this style sheet or script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src {_hash_of(STYLE)}; script-src {_hash_of(SCRIPT)};"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}


def docs_router() -> Router:
    router = Router()
    made: list[bytes] = []

    @router.get("/docs", include_in_schema=False)
    async def show_docs(request: Request) -> Response:
        """Rendered at the first request, then kept. Each answer gets a ticket of its own for the forms."""
        if not made:
            made.append(await asyncio.to_thread(lambda: page_of(request.app.openapi()).encode()))
        ticket: str = request.app.state.service_key.ticket("docs")
        return Response(made[0].replace(TICKET, ticket.encode()), headers=HEADERS, media_type="text/html")

    @router.get("/", include_in_schema=False)
    async def show_start() -> Response:
        """Lead people who open the address that `forager up` prints to the documentation."""
        return RedirectResponse("/docs", status_code=307)

    return router
