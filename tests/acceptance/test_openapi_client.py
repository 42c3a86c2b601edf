"""A client that has never seen Forager's code: it uses only the OpenAPI document of the service."""

import asyncio
import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest

from forager.sandbox.site import SandboxSite
from forager.secrets.service_key import read_service_key
from tests.acceptance.test_cli import Machine
from tests.acceptance.test_scrape import website

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]

PATIENCE = 60.0


@pytest.fixture
def machine(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path, tmp_path_factory.getbasetemp() / "bytecode")


@dataclass
class Stranger:
    """Finds operations by their descriptions, fills in their own examples, and checks every answer."""

    client: httpx.AsyncClient
    document: dict[str, Any]

    async def ask(self, summary: str, body: Mapping[str, Any] | None = None, **named: str) -> Any:
        method, path, about = self._operation(summary)
        url = re.sub(r"\{(\w+)\}", lambda found: named[found[1]], path)
        answer = await self.client.request(method, url, json=body)
        said = about["responses"].get(str(answer.status_code))
        assert said is not None, f"{method} {path} answered {answer.status_code}, which its document does not have"
        schema = said["content"]["application/json"]["schema"]
        whole = {**self._plain(schema), "components": self.document.get("components", {})}
        jsonschema_rs.validator_for(whole).validate(answer.json())
        assert answer.is_success, answer.text
        return answer.json()["data"]

    def example(self, summary: str) -> dict[str, Any]:
        _, _, about = self._operation(summary)
        content = about["requestBody"]["content"]["application/json"]
        schema = self._resolved(content["schema"])
        examples = content.get("examples") or schema.get("examples") or [content.get("example")]
        first = next(iter(examples.values()))["value"] if isinstance(examples, dict) else examples[0]
        return deepcopy(first)

    def _operation(self, summary: str) -> tuple[str, str, dict[str, Any]]:
        for path, methods in self.document["paths"].items():
            for method, about in methods.items():
                if about.get("summary") == summary:
                    return method.upper(), path, about
        raise AssertionError(f"no operation declares this: {summary}")

    def _resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in schema:
            target: Any = self.document
            for part in schema["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            schema = target
        return schema

    @staticmethod
    def _plain(schema: dict[str, Any]) -> dict[str, Any]:
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


async def _until(stranger: Stranger, summary: str, states: set[str], **named: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        while True:
            seen: dict[str, Any] = await stranger.ask(summary, None, **named)
            if seen["status"] in states:
                return seen
            await asyncio.sleep(0.1)


async def _whole_life(stranger: Stranger, site: SandboxSite) -> None:
    one = stranger.example("Fetch a page")
    one |= {"target_url": site.url("/jobs/jsonld/1"), "target_type": "job_posting", "render": "http"}
    one.pop("callback_url", None)
    one.pop("requested_fields", None)
    made = await stranger.ask("Fetch a page", one)
    seen = await _until(stranger, "Show a requested page", {"completed", "failed"}, task_id=made["task_id"])
    assert seen["status"] == "completed"
    assert seen["result"]["job_title"]

    now = await stranger.ask(
        "Fetch a page and wait for the result", {**one, "target_url": site.url("/jobs/microdata/2")}
    )
    assert now["result"]["job_title"]

    many = stranger.example("Fetch many pages")
    many["targets"] = [{**one, "target_url": site.url(f"/jobs/plain/{n}")} for n in range(5)]
    many.pop("callback_url", None)
    batch = await stranger.ask("Fetch many pages", many)
    ends = {"completed", "partially_completed", "failed", "cancelled"}
    ended = await _until(stranger, "Show a batch", ends, job_id=batch["job_id"])
    assert (ended["status"], ended["completed_tasks"]) == ("completed", 5)


async def test_a_client_built_from_the_openapi_document_alone_can_use_the_service__SC_1(machine: Machine) -> None:
    async with website(machine) as site:
        with machine.started("up"):
            owner = await asyncio.to_thread(machine.until_up)
            headers = {"X-Service-Key": read_service_key(machine.home) or ""}
            async with httpx.AsyncClient(base_url=owner.url or "", headers=headers, timeout=PATIENCE) as client:
                document = (await client.get("/openapi.json")).json()
                await _whole_life(Stranger(client, document), site)
