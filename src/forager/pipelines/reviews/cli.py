"""`forager reviews …`: fetch the reviews that an access token can read."""

import asyncio
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forager.core.errors import Rejected
from forager.sdk.cli import render
from forager.sdk.cli.client import Api, JobNotDone, part
from forager.sdk.cli.invocation import JobId, Json, Reached, full_job, with_api
from forager.sdk.cli.render import Figures, Job, Words, answered, json_text, some
from forager.sdk.cli.run_job import run_job, see_through

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree


# The display texts of a reviews job: pages, and the reviews that they brought.


def _request(_: Mapping[str, Any]) -> str:
    return "reviews of an access token"


def _results(job: Job) -> Figures:
    return [
        ("pages", answered(job)),
        ("records", some(job["records"], "account, location or review", "accounts, locations and reviews")),
    ]


words = Words(
    task=("page", "pages"),
    request=_request,
    results=_results,
    retry="forager reviews retry {job} --token-file FILE",
)


# A reviews job as a tree that grows: accounts, their newest locations, the newest reviews of each.
#
# The display is bounded, however large the job is; counts are of everything.


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
    """The locations of the last events, the newest at the end."""


class ReviewTree:
    """The findings of a job as a tree."""

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
    """Return words with their styles. What Google sent is never read as markup, nor does it move the cursor."""
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


commands = typer.Typer(help="Google Business Profile reviews.", no_args_is_help=True)

TokenFile = Annotated[
    Path, typer.Option("--token-file", "-t", help="File that holds the OAuth access token; - reads standard input.")
]
LoginName = Annotated[str, typer.Option("--name", help="Name of the login.")]


@commands.command()
def run(
    context: typer.Context,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", "-t", help="File that holds the OAuth access token; - reads standard input."),
    ] = None,
    login: Annotated[
        str | None, typer.Option("--login", help="Stored Google login, in place of a token: `forager reviews login`.")
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show requests and time by the newest complete job; fetch nothing.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Follow a job that a running Forager works on until it has ended.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Fetch accounts, locations and reviews of a token, or of a stored login.

    The token is read from a file, never from the command line, where other users of the machine could see it.

    Example: forager reviews run --token-file token.txt
    """
    if plan:
        job = {"pipeline": "reviews", "params": {} if login is None else {"login": login}}
        _show_plan(with_api(context, lambda at: at.api.post("/jobs/plan", job), store="optional"), as_json=as_json)
        return
    if (token_file is None) == (login is None):
        raise Rejected("Give either --token-file or --login.")
    body = {"login": login} if token_file is None else {"access_token": _read_token(token_file)}

    async def work(at: Reached) -> None:
        await run_job(at, "/review-fetch", body, words=words, total=None, watch=watch, as_json=as_json)

    with_api(context, work, fields={"access_token": "token_file"}, store="created")


def _show_plan(planned: Any, *, as_json: bool) -> None:
    if as_json:
        render.show_json(planned)
        return
    if planned["based_on"] is None:
        render.notes().print("Unknown: no reviews job has been completed yet. Requests cost nothing.", markup=False)
        return
    facts = [(name, render.count(planned[name])) for name in ("accounts", "locations", "reviews", "requests")]
    time = None if planned["seconds"] is None else render.duration(planned["seconds"])
    render.out().print(
        render.facts([*facts, ("time", time), ("cost", "none"), ("based on", f"job {planned['based_on']}")])
    )
    render.notes().print("Nothing was fetched.", markup=False)


@commands.command()
def show(context: typer.Context, job: JobId, as_json: Json = False) -> None:
    """Show the state of a reviews job: accounts, locations, reviews and failures.

    Example: forager reviews show <job>
    """

    async def work(at: Reached) -> Any:
        return await at.api.get(f"/review-fetch/{await full_job(at.api, job)}")

    seen = with_api(context, work)
    if as_json:
        render.show_json(seen)
        return
    counted = [(name, render.count(seen[name])) for name in ("accounts", "locations", "reviews", "failures")]
    pages = f"{render.count(seen['pages_done'])} of {render.count(seen['pages'])} found until now"
    render.out().print(render.facts([("state", render.state(seen["status"])), *counted, ("pages", pages)]))


@commands.command()
def retry(context: typer.Context, job: JobId, token_file: TokenFile, as_json: Json = False) -> None:
    """Fetch the failed pages of a job again, with a new token.

    Example: forager reviews retry <job> --token-file token.txt
    """
    token = _read_token(token_file)

    async def work(at: Reached) -> Any:
        answered = await at.api.post(f"/review-fetch/{await full_job(at.api, job)}/retry", {"access_token": token})
        if at.engine is not None and answered["requeued"]:
            await see_through(at, answered["job_id"], words=words, quiet=as_json)
        return answered

    answered = with_api(context, work, fields={"access_token": "token_file"})
    if as_json:
        render.show_json(answered)
        return
    again = f"{render.some(answered['requeued'], 'page')} queued again."
    render.out().print(again if answered["requeued"] else "Nothing to retry: this job has no failed pages.")


@commands.command()
def stream(context: typer.Context, job: JobId, as_json: Json = False) -> None:
    """Show what a job finds, nested, while it runs.

    With --json, or if the output is not a terminal, every account, location and review is one line of JSON. The exit
    code is 1 if pages could not be fetched.

    Example: forager reviews stream <job>
    """

    async def work(at: Reached) -> tuple[bool, Any]:
        wait, whole = not at.is_alone, await full_job(at.api, job)
        if not as_json and render.out().is_terminal:
            ended = await watch_tree(at.api, whole, wait=wait)
        else:
            ended = await read_events(at.api, whole, _print_line, sys.stdout.flush, wait=wait)
        return ended, await at.api.get(f"/review-fetch/{whole}")

    ended, seen = with_api(context, work)
    if not ended:
        raise JobNotDone(f"Job {job} is not progressing, because Forager is not running. Start it: forager up")
    if seen["failures"]:
        raise JobNotDone(
            f"{render.some(seen['failures'], 'page')} of job {seen['job_id']} could not be fetched."
            f" See why: forager dead list --job {seen['job_id']}."
            f" Fetch them with a new token: forager reviews retry {seen['job_id']} --token-file FILE"
        )


@commands.command()
def login(
    context: typer.Context,
    client_file: Annotated[
        Path,
        typer.Option("--client", help="JSON file of an OAuth client of the type desktop, as Google's console has it."),
    ],
    name: LoginName = "google",
    refresh_token_file: Annotated[
        Path | None,
        typer.Option("--refresh-token-file", help="File with a refresh token that you have; no browser is needed."),
    ] = None,
    open_browser: Annotated[
        bool, typer.Option("--open", help="Open the page in a browser; without it, it is printed.")
    ] = False,
    wait: Annotated[int, typer.Option("--wait", min=5, max=3600, help="Seconds to wait for the consent.")] = 300,
    as_json: Json = False,
) -> None:
    """Store a Google login, so that schedules can fetch reviews without a token.

    Prints Google's page of consent, and waits on a port of this machine for the browser to come back. The refresh token
    and the client's secret are sealed in the store. Add a schedule then: forager schedules add daily-reviews.

    Example: forager reviews login --client client.json --name shop
    """
    from forager.pipelines.reviews.cli_login import read_client, store_login

    client = read_client(client_file)
    refresh = None if refresh_token_file is None else _read_token(refresh_token_file)

    async def work(at: Reached) -> Any:
        return await store_login(at.api, name, client, refresh, open_browser=open_browser, wait=wait)

    stored = with_api(context, work, store="created")
    if as_json:
        render.show_json(stored)
        return
    render.out().print(f"Stored the login {name}. Fetch with it: forager reviews run --login {name}", markup=False)


@commands.command()
def logins(context: typer.Context, as_json: Json = False) -> None:
    """List the stored Google logins.

    Example: forager reviews logins
    """

    async def work(at: Reached) -> Any:
        return await at.api.get("/review-logins")

    found = with_api(context, work)
    if as_json:
        render.show_json(found)
        return
    if not found:
        render.notes().print("No login is stored. Add one: forager reviews login", markup=False)
    for each in found:
        render.out().print(each["name"], markup=False)


@commands.command()
def logout(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the login.")],
    as_json: Json = False,
) -> None:
    """Remove a Google login from the store. Google keeps its grant: revoke it in the Google account.

    Example: forager reviews logout shop
    """

    async def work(at: Reached) -> Any:
        return await at.api.delete(f"/review-logins/{part(name)}")

    removed = with_api(context, work)
    if as_json:
        render.show_json(removed)
        return
    render.out().print(f"Removed {name}.", markup=False)


def _print_line(event: Mapping[str, Any]) -> None:
    sys.stdout.write(json_text(event, sys.stdout) + "\n")


def _read_token(file: Path) -> str:
    try:
        return (sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")).strip()
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Rejected(f"--token-file: {file} cannot be read: {why}") from error
