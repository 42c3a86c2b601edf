"""The TypeScript client, compiled by tsc and run by Node against the real API, where both are."""

import asyncio
import json
import os
import shutil
from pathlib import Path

import pytest

from forager.sinks.webhook.signing import sign
from tests.support.api import KEY, open_front
from tests.support.served import served

FOLDER = Path(__file__).parents[3] / "clients" / "typescript"
OURS = FOLDER.parents[1] / ".venv" / "node" / "node_modules" / ".bin" / "tsc"
TSC = os.environ.get("TSC") or shutil.which("tsc") or (str(OURS) if OURS.exists() else None)
NODE = shutil.which("node")
PROGRAM = """
import { Forager, ForagerError, verifyWebhook } from "./dist/index.js";
const [url, key, webhook] = process.argv.slice(2);
const forager = new Forager(url, key);
const made = await forager.createPlacesJob({ keyword: "bars", zips: ["85001"], pages: 1 });
const job = await forager.waitForJob(made.job_id);
const places = [];
for await (const place of forager.rows("/api/v1/records/place")) places.push(place.place_uid);
const changes = [];
for await (const change of forager.followChanges(0, "place", false)) changes.push(change.id);
let refused;
try { await forager.createPlacesJob({ keyword: "bars", state: "ZZ" }); } catch (error) {
  refused = error instanceof ForagerError ? [error.status, error.code, error.meta.fields[0].field] : String(error);
}
const { secret, headers, body, now } = JSON.parse(webhook);
const id = verifyWebhook(secret, headers, body, now);
const wrong = [];
const cases = [["other", headers, body, now], [secret, headers, body + " ", now], [secret, headers, body, now + 301]];
for (const args of cases) {
  try { verifyWebhook(...args); wrong.push("accepted"); } catch (error) { wrong.push(error.message); }
}
console.log(JSON.stringify({ state: job.state, places: places.length, changes: changes.length, refused, id, wrong }));
"""


async def ran(*command: str, folder: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    return out.decode()


@pytest.mark.skipif(not (TSC and NODE), reason="needs Node, and tsc: scripts/setup clients")
async def test_a_program_runs_a_job_reads_records_and_verifies_a_webhook(tmp_path: Path) -> None:
    assert TSC
    assert NODE
    home = tmp_path / "front"
    home.mkdir()
    shutil.copytree(FOLDER, tmp_path / "client")
    (tmp_path / "client" / "run.mjs").write_text(PROGRAM)
    body = '{"event": "job_ended"}'
    webhook = {"secret": "s3cret", "headers": sign("s3cret", "m1", 1_000, body.encode()), "body": body, "now": 1_010}
    types = Path(TSC).resolve().parents[2] / "@types"  # beside the compiler
    await ran(TSC, "-p", ".", "--typeRoots", str(types), folder=tmp_path / "client")
    async with open_front(home) as front, served(front.api) as url, front.app.engine(schedules=False):
        said = json.loads(await ran(NODE, "run.mjs", url, KEY, json.dumps(webhook), folder=tmp_path / "client"))

    assert said["state"] == "completed"
    assert said["places"] == said["changes"] > 0
    assert said["refused"] == [422, "invalid", "state"]
    assert said["id"] == "m1"
    assert [why.split()[0] for why in said["wrong"]] == ["No", "No", "The"]
