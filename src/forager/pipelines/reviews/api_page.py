"""The page `/demo`: a form for an access token, and the job's accounts, locations and reviews as they are found.

It is one file without references, whose style and script are named by their hashes. A browser signs in to it as to
`/docs`; the page then holds a ticket for the few routes that it calls, never the service key.
"""

import base64
import hashlib
from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from forager.kit.http.routes import Router

PATH = "/demo"


def page_router() -> Router:
    router = Router()

    @router.get(PATH, include_in_schema=False)
    async def show_demo(request: Request) -> Response:
        page, headers = _page()
        ticket: str = request.app.state.service_key.ticket()
        return Response(page.replace("{ticket}", ticket), headers=headers, media_type="text/html")

    return router


@cache
def _page() -> tuple[str, dict[str, str]]:
    """The page without its ticket, and its headers."""
    style, script, page = (_file(name) for name in ("demo.css", "demo.js", "demo.html"))
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; connect-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    headers = {"Content-Security-Policy": policy, "Referrer-Policy": "no-referrer"}
    return page.replace("{style}", style).replace("{script}", script), headers


def _file(name: str) -> str:
    return (files("forager.pipelines.reviews") / "page" / name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
