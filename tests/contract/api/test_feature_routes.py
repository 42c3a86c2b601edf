"""An API that serves one command has the same routes, and imports those of features only when one is called."""

import sys
from pathlib import Path

from fastapi import FastAPI
from starlette.routing import Match

from forager.api import create_api
from forager.api.create import FOUND, FeatureRoutes
from tests.support.api import KEY, client_of, open_front


def endpoint(api: FastAPI, method: str, path: str) -> str:
    """The name of the function that answers a request."""
    scope = {"type": "http", "method": method, "path": path, "root_path": "", "headers": []}
    for route in api.router.routes:
        match, child = route.matches(scope)
        if match is Match.FULL:
            return str(getattr(child.get(FOUND, route), "name", ""))
    return "none"


async def test_every_path_leads_to_the_same_function(tmp_path: Path) -> None:
    async with open_front(tmp_path) as front:
        lazy = create_api(front.app, key=KEY, one_command=True)
        for path, methods in front.api.openapi()["paths"].items():
            asked = path.replace("{", "").replace("}", "")
            for method in methods:
                assert endpoint(lazy, method.upper(), asked) == endpoint(front.api, method.upper(), asked) != "none", (
                    path
                )


async def test_features_answer_and_unknown_paths_and_methods_are_refused_as_ever(tmp_path: Path) -> None:
    async with open_front(tmp_path) as front, client_of(create_api(front.app, key=KEY, one_command=True)) as client:
        assert any(isinstance(route, FeatureRoutes) for route in client._transport.app.router.routes)  # type: ignore[attr-defined]
        assert (await client.get("/api/v1/jobs")).json()["data"] == []
        assert (await client.get("/api/v1/places")).json()["data"] == []
        for method, path in (("GET", "/api/v1/nothing"), ("DELETE", "/api/v1/places")):
            one, other = await client.request(method, path), await front.client.request(method, path)
            assert (one.status_code, one.json()["error"]) == (other.status_code, other.json()["error"])
    assert "forager.pipelines.places.api" in sys.modules
