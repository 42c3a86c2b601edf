"""Checks of the store, the receivers, the files, the pages and the money, from the raw tables and from the logs of the
other side, never from our API."""

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
from forager.pipelines.products.records import Product
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
    found += _watches(story) + _alerts(story) + _index(story)
    found += _money(story, jobs)
    found += await _pages(app)
    story.facts.update(
        changes=len(ids),
        failed=len(failed),
        requests=story.world.counts["request"],
        messages=len(story.upstreams.hook.taken),
        alerts=len(story.upstreams.channel.titles),
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
    paid = [row for row in jobs if row["pipeline"] in ("places", "web")]
    spent = sum(int(str(row["spent"])) for row in paid)
    guessed = sum(int(str(row["guessed"])) for row in paid)
    if spent - guessed > charged:
        return [f"the ledger has {spent} credits spent ({guessed} of them guessed), the upstream charged {charged}"]
    return []


def _seen_prices(story: "Story") -> dict[str, int | None]:
    """Return the price that each watch has seen last."""
    tables = SqliteTables(story.home / "ledger.db")
    try:
        rows = tables.read("SELECT watch, fields FROM watched_pages")
    finally:
        tables.close()
    return {row["watch"]: json.loads(row["fields"] or "{}").get("price") for row in rows}


def unseen(story: "Story") -> list[str]:
    """Return the watches whose page shows a price that they have not seen yet."""
    seen, watched = _seen_prices(story), story.upstreams.watched
    wanted = [each.name for each in story.world.plan.watches if each in story.stored]
    return [name for name in wanted if seen.get(name) != watched.price(name)]


def _watches(story: "Story") -> list[str]:
    """A watch has observed only what its page has shown, in its order, and no price twice in a row."""
    tables = SqliteTables(story.home / "ledger.db")
    try:
        rows = tables.read("SELECT key, body FROM changes WHERE kind = 'watched_page' ORDER BY id")
    finally:
        tables.close()
    observed: dict[str, list[int]] = {}
    for row in rows:
        price = (json.loads(row["body"]).get("fields") or {}).get("price")
        if price is not None:
            observed.setdefault(row["key"], []).append(price)
    found = []
    for name, prices in observed.items():
        shown = story.upstreams.watched.shown.get(name, set())
        found += [f"watch {name} has seen {price}, which its page never showed" for price in {*prices} - shown]
        if prices != sorted(prices, reverse=True):
            found.append(f"watch {name} has seen its prices in the order {prices}")
    return found[:3]


def _alerts(story: "Story") -> list[str]:
    """Each change that meets a rule is one alert, no other is; and each alert is in a message."""
    tables = SqliteTables(story.home / "ledger.db")
    try:
        rules = tables.read("SELECT name, record_kind, subject, since_change FROM alert_rules")
        changes = tables.read("SELECT id, kind, key, op, body FROM changes ORDER BY id")
        fired = tables.read("SELECT alert, rule, title, delivered_at FROM fired_alerts")
    finally:
        tables.close()
    limits = {each.name: each.below for each in story.world.plan.watches}
    wanted, before = set[str](), dict[tuple[str, str], int | None]()
    for change in changes:
        subject = (change["kind"], change["key"])
        body = json.loads(change["body"] or "{}")
        fields = body.get("fields") or {}
        price, old = fields.get("price"), before.get(subject)
        for rule in rules:
            if change["kind"] != rule["record_kind"] or change["id"] <= rule["since_change"]:
                continue
            if rule["subject"] is None:
                fires = change["op"] in ("new", "changed")
            elif rule["subject"] != change["key"]:
                fires = False
            elif (below := limits[rule["name"]]) is None:
                fires = change["op"] == "changed"
            else:
                fires = price is not None and price < below and not (old is not None and old < below)
            if fires:
                wanted.add(f"{rule['name']}_{change['id']}")
        before[subject] = price
    there = {row["alert"] for row in fired}
    found = [f"alert {name} has not fired" for name in sorted(wanted - there)[:3]]
    found += [f"alert {name} has fired without a change that meets its rule" for name in sorted(there - wanted)[:3]]
    found += [f"alert {row['alert']} was never delivered" for row in fired if row["delivered_at"] is None][:3]
    return found + _messages(story, fired)


def _messages(story: "Story", fired: Sequence[dict[str, object]]) -> list[str]:
    """A message may come twice, if its answer was lost; none may be missing."""
    came = Counter(story.upstreams.channel.titles)
    if story.world.plan.digest is not None:
        return [] if came or not fired else ["no alert has reached the channel"]
    expected = Counter(str(row["title"]) for row in fired)
    return [f"{n} alerts are titled {title!r}, {came[title]} came" for title, n in expected.items() if came[title] < n]


def _index(story: "Story") -> list[str]:
    """The search index has each product as it is stored, and nothing else."""
    tables = SqliteTables(story.home / "ledger.db")
    try:
        if not tables.read("SELECT 1 FROM sqlite_master WHERE name = 'search_products'"):
            return []
        columns = ", ".join(Product.search)
        stored = {tuple(row.values()) for row in tables.read(f"SELECT id, {columns} FROM products")}
        indexed = {tuple(row.values()) for row in tables.read(f"SELECT rowid AS id, {columns} FROM search_products")}
    finally:
        tables.close()
    found = [f"product {row[0]} is not in the search index as it is stored" for row in sorted(stored - indexed)]
    return (found + [f"the search index has {row[0]}, the store has not" for row in sorted(indexed - stored)])[:3]


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
