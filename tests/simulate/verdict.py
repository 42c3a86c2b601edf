"""What must be true of the store, the receivers, the files, the pages and the money, read from the raw tables and from
the logs of the other side, never from our API."""

import json
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from forager.app.application import App
from forager.app.config import new_settings
from forager.app.features import all_features
from forager.app.wiring import build_pipelines
from forager.core.errors import BlobMissing
from forager.core.record import Record
from forager.sandbox.receiver import ReceivedRequest
from forager.sinks.files.manifest import all_manifests
from forager.sinks.webhook import signing
from forager.storage.folder import Folder
from tests.simulate.upstreams import KINDS
from tests.support.auditor import SqliteTables, audit

if TYPE_CHECKING:
    from tests.simulate.run import Story


@cache
def records() -> Sequence[type[Record]]:
    return [record for pipeline in build_pipelines(new_settings(), all_features()) for record in pipeline.records]


def tables_agree(story: "Story") -> list[str]:
    """The auditor over the raw tables, at any moment; and nothing that was acknowledged is missing."""
    tables = SqliteTables(story.home / "ledger.db")
    try:
        now = round(story.world.wall().timestamp() * 1000)
        found = audit(tables, records(), now, may_rest=True)
        jobs = {str(row["public_id"]) for row in tables.read("SELECT public_id FROM jobs WHERE state <> 'planning'")}
        found += [f"job {n} was acknowledged and is gone" for n, job in story.accepted.items() if str(job) not in jobs]
        return found
    finally:
        tables.close()


async def at_the_end(story: "Story", app: App) -> list[str]:
    """Everything has come to its end: compare all sides."""
    found = [f"at the end: {line}" for line in tables_agree(story)]
    tables = SqliteTables(story.home / "ledger.db")
    try:
        changes = tables.read("SELECT id, kind, op FROM changes")
        failed = tables.read("SELECT kind, key, body, error FROM tasks WHERE state = 5")
        jobs = tables.read("SELECT id, pipeline, spent, guessed FROM jobs")
    finally:
        tables.close()
    ids = {row["id"] for row in changes}
    found += _innocent(failed)
    found += _receivers(story, {row["id"] for row in changes if row["kind"] in KINDS})
    found += refusals(story.upstreams.hook.log) + refusals(story.upstreams.ends.log)
    if "lake" in story.world.plan.sinks:
        found += _files(story, ids)
    found += _money(story, jobs)
    found += await _pages(app)
    story.facts.update(
        changes=len(ids),
        failed=len(failed),
        requests=story.world.counts["request"],
        messages=len(story.upstreams.hook.taken),
        jobs=len(jobs),
    )
    return found


def _innocent(failed: Sequence[dict[str, object]]) -> list[str]:
    """A task is a dead letter because of deaths only if it is the one that kills."""
    found = []
    for row in failed:
        body = row["body"]
        named = f"{row['kind']} {row['key']} {body.decode() if isinstance(body, bytes) else body}"
        if "died" in str(row["error"]) and "poison" not in named:
            found.append(f"an innocent dead letter: {named}: {row['error']}")
    return found


def _receivers(story: "Story", wanted: set[int]) -> list[str]:
    if "hook" not in story.world.plan.sinks:
        return []
    hook = story.upstreams.hook
    taken = Counter(json.loads(body)["id"] for body in hook.taken.values())
    found = [f"change {number} has not reached the receiver" for number in sorted(wanted - taken.keys())[:3]]
    found += [f"the receiver has change {number}, the log has not" for number in sorted(taken.keys() - wanted)[:3]]
    found += [
        f"change {number} reached the receiver under {times} ids" for number, times in taken.items() if times > 1
    ][:3]
    return found


def refusals(log: Sequence[ReceivedRequest]) -> list[str]:
    """A message that arrives too late is refused, and must be delivered by a later try with a time of its own. Only the
    machine's sleep makes a message that late: `SimulatedSession` finds one that leaves with an old signature. A message
    that is refused for any other reason is a finding."""
    found = []
    for place, each in enumerate(log):
        if each.problem is None:
            continue
        if abs(each.at.timestamp() - int(each.headers.get(signing.TIMESTAMP, 0))) <= signing.TOLERANCE:
            found.append(f"the receiver refused a message: {each.problem}")
        elif not any(later.id == each.id and later.problem is None for later in log[place + 1 :]):
            found.append(f"a message that arrived too late was never delivered: {each.id}")
    return found[:3]


def _files(story: "Story", wanted: set[int]) -> list[str]:
    place = Folder(story.home / "files" / "lake")
    parts = [part for manifest in all_manifests(place) for part in manifest.parts]
    written = Counter(json.loads(line)["id"] for part in parts for line in place.get(part.path).splitlines())
    found = [f"change {number} is not in the files" for number in sorted(wanted - written.keys())[:3]]
    found += [f"change {number} is {times} times in the files" for number, times in written.items() if times > 1][:3]
    return found + [
        f"the files have change {number}, the log has not" for number in sorted(written.keys() - wanted)[:3]
    ]


def _money(story: "Story", jobs: Sequence[dict[str, object]]) -> list[str]:
    """The ledger bills nothing that the upstream has not charged, and everything that was delivered and settled: the
    auditor compares the sums of tasks, jobs and lanes."""
    charged = sum(entry.credits for entry in story.upstreams.serper.log.since(0))
    spent = sum(int(str(row["spent"])) for row in jobs if row["pipeline"] == "places")
    guessed = sum(int(str(row["guessed"])) for row in jobs if row["pipeline"] == "places")
    if spent - guessed > charged:
        return [f"the ledger has {spent} credits spent ({guessed} of them guessed), the upstream charged {charged}"]
    return []


async def _pages(app: App) -> list[str]:
    """Every page that a record or an open task refers to can be read."""
    found = []
    async for blobs in app.stored_pages._references():
        for blob in blobs:
            try:
                await app.read_page(blob)
            except BlobMissing as error:
                found.append(f"a page is referred to and gone: {error}")
    return found
