"""Everything that OpenAPI allows, and much that it does not: no answer is a defect, and each is as described (S10)."""

import asyncio
import copy
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from forager.api.serve import running
from forager.sandbox import Fault, GoogleConfig, GoogleSandbox, Rule
from forager.sandbox.site import SandboxSite
from tests.support.api import KEY, ONE_QUERY, Front, open_front
from tests.support.scrape import QUICK

EXAMPLES = int(os.environ.get("FORAGER_FUZZ_EXAMPLES", "2"))
"""Per operation and mode; `make fuzz` has more."""
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
NESTED = "/api/v1/demo/nested"
"""It answers 502 if Google refuses a token, as it is described, and no fuzzer guesses one that Google accepts."""
PATIENCE = 60.0
SCRAPE = "/api/v1/scrape"
LANES = ["serper", "www.linkedin.com", "shop.example:8443", "two words"]


class Served(threading.Thread):
    """The API in a loop of its own: the fuzzer is not asynchronous."""

    def __init__(self, home: Path) -> None:
        super().__init__(daemon=True)
        self.url = ""
        self.document: dict[str, Any] = {}
        self._home = home
        self._up = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._finish = asyncio.Event()

    def run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    def __enter__(self) -> "Served":
        self.start()
        assert self._up.wait(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._finish.set)
        self.join(PATIENCE)

    async def _serve(self) -> None:
        """With an engine, so that health is green; on a sandbox, so that jobs may run."""
        rules = self._home / "policies.yaml"
        rules.write_text(QUICK)
        async with (
            SandboxSite() as site,
            GoogleSandbox(GoogleConfig()) as google,
            open_front(
                self._home,
                allow=[site.endpoint, *(url.removeprefix("http://") for url in _addresses(google).values())],
                policies=rules,
                settings=_addresses(google),
                script=(Rule(Fault.MALFORMED, zip="85003", times=3),),
            ) as front,
            front.app.engine(),
            running(front.api, host="127.0.0.1", port=0) as self.url,
        ):
            known = await self._fill(front)
            self.document = _fuzzable(front.api.openapi(), known, await self._fill_scrape(front, site))
            _name_a_page(self.document["components"]["schemas"], site.url("/jobs/jsonld/1"))
            self._up.set()
            await self._finish.wait()

    @staticmethod
    async def _fill(front: Front) -> dict[str, list[str]]:
        """Something of everything, and what it is called: by the names of the path parameters."""
        jobs = [await front.create(keyword="bars", zips=["85001", "85003"], pages=2) for _ in range(3)]
        schedule = {"pipeline": "places", "params": ONE_QUERY, "every": 86_400, "no_budget": True}
        assert (await front.client.put("/api/v1/schedules/daily", json=schedule)).status_code == 200
        async with asyncio.timeout(PATIENCE):
            while (await front.data("/api/v1/jobs", state="running")) or await front.data(
                "/api/v1/jobs", state="queued"
            ):
                await asyncio.sleep(0.01)
        tasks = [task["id"] for task in await front.data(f"/api/v1/jobs/{jobs[0]}/tasks")]
        dead = [task["id"] for task in await front.data("/api/v1/dead")]
        places = [place["place_uid"] for place in await front.data("/api/v1/places", limit=2)]
        assert dead
        assert places
        kinds = ["place", "sighting", "scrape_result"]
        return {
            "job_id": jobs,
            "task_id": dead + tasks,
            "place_uid": places,
            "name": ["daily"],
            "kind": kinds,
            "lane": LANES,
            "sink": ["webhook"],
        }

    @staticmethod
    async def _fill_scrape(front: Front, site: SandboxSite) -> dict[str, list[str]]:
        """Pages that were read, one that is not there, and a batch of both."""
        pages = [
            {"target_type": "job_posting", "target_url": site.url(path), "workspace_id": "acme", "render": "http"}
            for path in ("/jobs/jsonld/1", "/nowhere")
        ]
        made = [(await front.client.post("/api/v1/scrape", json=page)).json()["data"] for page in pages]
        batch = (await front.client.post("/api/v1/scrape/batch", json={"targets": pages})).json()["data"]["job_id"]
        jobs = [*(each["job_id"] for each in made), batch]
        async with asyncio.timeout(PATIENCE):
            for job in jobs:
                while (await front.data(f"/api/v1/scrape/jobs/{job}"))["finished_at"] is None:
                    await asyncio.sleep(0.01)
        return {"job_id": jobs, "task_id": [each["task_id"] for each in made]}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("fuzzed")) as up:
        yield up


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_no_answer_is_a_defect_and_each_is_as_described__S10(served: Served, mode: GenerationMode) -> None:
    answered: Counter[int] = Counter()
    of_pages: Counter[tuple[str, int]] = Counter()
    operations = 0
    _remove_proxies(served.url)
    for found in schemathesis.openapi.from_dict(served.document).get_all_operations():
        operations += 1
        assert isinstance(found, Ok)
        operation = found.ok()
        for most in (EXAMPLES, 5 * EXAMPLES, 25 * EXAMPLES):
            told: Counter[int] = Counter()
            _fuzz(operation, mode, served.url, told, most)
            answered.update(told)
            if not operation.path.startswith(SCRAPE):
                break
            of_pages.update({(operation.label, status): count for status, count in told.items()})
            if mode is GenerationMode.NEGATIVE or any(_is_known(status) for status in told):
                break  # it was understood at least once; what is hard to guess gets more examples
    sys.stdout.write(f"{mode.value}: {operations} operations, answers {dict(sorted(answered.items()))}\n")
    assert operations > 25
    assert sum(answered.values()) > operations
    assert not [status for status in answered if status >= 500 or status == 401]
    if mode is GenerationMode.NEGATIVE:
        assert answered[422] > 0, "the fuzzer never sent anything wrong"
    else:
        assert answered[200] > 25, "the fuzzer never got behind the front door"
        known = {label for label, status in of_pages if _is_known(status)}
        assert len(known) == len({label for label, _ in of_pages}) == 11, of_pages


def _fuzzable(document: dict[str, Any], known: dict[str, list[str]], pages: dict[str, list[str]]) -> dict[str, Any]:
    """Run every operation without the key, because half of the generated keys would be wrong, and a wrong key hides the
    routes (S11 and S12 cover keys); and with ids that exist, which no generator would find. Only streams keep their own
    ids: they stay open on a paused job. Proxies come last, because none that is made here works. The stream of the
    whole log never ends, and a wait for the end of the log is a wait."""
    plain: dict[str, Any] = copy.deepcopy(document)
    del plain["components"]["securitySchemes"], plain["paths"]["/api/v1/changes/events"]
    plain["paths"] = dict(sorted(plain["paths"].items(), key=lambda path: "/proxies" in path[0]))
    for path, operations in plain["paths"].items():
        there = {**known, **pages} if path.startswith(SCRAPE) else known
        for operation in operations.values():
            del operation["security"]
            for parameter in operation.get("parameters", ()):
                if parameter["name"] == "wait" and path == "/api/v1/changes":
                    parameter["schema"]["maximum"] = 0.01
                if parameter["name"] in there and parameter["in"] == "path" and not path.endswith("/events"):
                    parameter["schema"] = {"type": "string", "enum": [*there[parameter["name"]], str(UUID(int=7))]}
    return plain


def _addresses(google: GoogleSandbox) -> dict[str, str]:
    """Return the settings for this simulated Google."""
    apis = {f"google_{name}_url": getattr(google, f"{name}_url") for name in ("accounts", "locations", "reviews")}
    return {**apis, "google_oauth_url": google.token_url.removesuffix("/token")}


def _remove_proxies(url: str) -> None:
    """With proxies of which none works nobody is ready, and no page can be had: as it should be, but not here."""
    key = {"X-Service-Key": KEY}
    for proxy in httpx.get(f"{url}/api/v1/proxies", headers=key).json()["data"]:
        assert httpx.delete(f"{url}/api/v1/proxies/{proxy['id']}", headers=key).is_success


def _name_a_page(schemas: dict[str, Any], url: str) -> None:
    """A page that is there: nobody would guess one, and whoever waits for another waits for nothing."""
    for name in ("ScrapeRequest", "SyncScrapeRequest", "BatchTarget"):
        schemas[name]["properties"] |= {
            "target_type": {"enum": ["job_posting"]},
            "target_url": {"enum": [url]},
            "requested_fields": {"type": "array", "items": {"enum": ["job_title", "location"]}, "minItems": 1},
            "render": {"enum": ["http"]},
        }


def _is_known(status: int) -> bool:
    return status < 300 or status == 409  # 409: it has ended already


def _fuzz(operation: Any, mode: GenerationMode, url: str, answered: Counter[int], most: int) -> None:
    @settings(
        max_examples=most,
        deadline=None,
        database=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        answer = case.call(base_url=url, headers={"X-Service-Key": KEY}, timeout=PATIENCE)
        if operation.path == NESTED and answer.status_code == 502:
            case.validate_response(answer, checks=[check for check in CHECKS if check is not not_a_server_error])
            return
        answered[answer.status_code] += 1
        case.validate_response(answer, checks=CHECKS)

    try:
        ask()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE, f"nothing could be made for {operation.label}"
