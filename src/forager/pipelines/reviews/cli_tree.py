"""A reviews job as a tree that grows: accounts, their newest locations, the newest reviews of each.

What is shown is bounded, however large the job is; counts are of everything.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from forager.kit.cli import render
from forager.kit.cli.client import Api

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree

Event = Mapping[str, Any]
LOOK_EVERY = 0.2
ACCOUNTS, LOCATIONS, REVIEWS, WORDS = 6, 4, 2, 60


@dataclass
class _Location:
    title: str
    reviews: int = 0
    newest: list["Text"] = field(default_factory=list)


@dataclass
class _Account:
    title: str
    locations: dict[str, _Location] = field(default_factory=dict)
    moved: dict[str, None] = field(default_factory=dict)
    """The locations that were heard of last, the newest at the end."""


class ReviewTree:
    """What a job has found so far."""

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}

    def add(self, event: Event) -> None:
        """Add one event; parents come before their children."""
        data = event["data"]
        account = self._accounts.setdefault(data["account_id"], _Account(data["account_id"]))
        if event["event"] == "account":
            account.title = data.get("account_name") or data["account_id"]
            return
        key = data["location_id"]
        location = account.locations.setdefault(key, _Location(key))
        account.moved.pop(key, None)
        account.moved[key] = None
        while len(account.moved) > LOCATIONS:
            del account.moved[next(iter(account.moved))]
        if event["event"] == "location":
            location.title = data.get("title") or key
        else:
            location.reviews += 1
            location.newest = [*location.newest, _review(data)][-REVIEWS:]

    def drawn(self) -> "Tree":
        from rich.tree import Tree

        reviews = sum(each.reviews for account in self._accounts.values() for each in account.locations.values())
        locations = sum(len(account.locations) for account in self._accounts.values())
        root = Tree(
            f"{render.some(len(self._accounts), 'account')}, {render.some(locations, 'location')},"
            f" {render.some(reviews, 'review')}"
        )
        for account in list(self._accounts.values())[:ACCOUNTS]:
            branch = root.add(_line((account.title, "bold")))
            for key in account.moved:
                location = account.locations[key]
                leaf = branch.add(_line((location.title, ""), (render.some(location.reviews, "review"), "dim")))
                for line in location.newest:
                    leaf.add(line)
            _more(branch, len(account.locations) - len(account.moved))
        _more(root, len(self._accounts) - ACCOUNTS)
        return root


def _more(branch: "Tree", count: int) -> None:
    if count > 0:
        branch.add(_line((f"and {count:,} more", "dim")))


def _review(data: Mapping[str, Any]) -> "Text":
    text = " ".join((data.get("text") or "").split())
    return _line(("★" * (data.get("rating") or 0), "yellow"), (text[:WORDS], ""))


def _line(*parts: tuple[str, str]) -> "Text":
    """Words with their styles. What Google sent is never read as markup, nor does it move the cursor."""
    from rich.text import Text

    return Text(" ").join(Text(str(render.plain(words)), style) for words, style in parts if words)


async def read_events(
    api: Api, job_id: str, each: Callable[[Event], None], page: Callable[[], None], *, wait: bool = True
) -> bool:
    """Call `each` for every event of a job, and `page` after each look, until the job has ended.

    Without `wait`, until there is nothing new. Returns whether the job has ended.
    """
    after = 0
    while True:
        batch = await api.get(f"/review-fetch/{job_id}/events", after=after, limit=1_000)
        for event in batch["events"]:
            each(event)
        page()
        after = batch["last"]
        if batch["ended"]:
            return True
        if not batch["events"]:
            if not wait:
                return False
            await asyncio.sleep(LOOK_EVERY)


async def watch_tree(api: Api, job_id: str, *, wait: bool = True) -> bool:
    """Draw the tree of a job while it grows, and leave its last state there. Returns whether the job has ended."""
    from rich.live import Live

    tree = ReviewTree()
    with Live(tree.drawn(), console=render.out(), auto_refresh=False) as live:
        return await read_events(api, job_id, tree.add, lambda: live.update(tree.drawn(), refresh=True), wait=wait)
