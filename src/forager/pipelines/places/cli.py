"""`forager places …`: price a job, and run it."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forager.core.errors import Rejected
from forager.sdk.cli import render
from forager.sdk.cli.invocation import Json, Reached, invocation, with_api
from forager.sdk.cli.render import Figures, Job, Words, answered, count, some, spent_with_assumed
from forager.sdk.cli.run_job import run_job

if TYPE_CHECKING:
    from forager.sdk.settings import SettingsTree

commands = typer.Typer(help="Business listings by keyword and ZIP code.", no_args_is_help=True)

Keyword = Annotated[str, typer.Option("--keyword", "-k", help="Search term for every ZIP, such as bars.")]
State = Annotated[str | None, typer.Option("--state", "-s", help="Two letters, such as AZ: every ZIP of that state.")]
Zips = Annotated[list[str] | None, typer.Option("--zip", "-z", help="This ZIP instead of a state (repeatable).")]
ZipsFrom = Annotated[
    Path | None, typer.Option(exists=True, dir_okay=False, help="A file with ZIPs, separated by blanks or lines.")
]
Pages = Annotated[int | None, typer.Option("--pages", "-p", help="Maximum pages of 10 results per ZIP (1 to 10).")]
BatchSize = Annotated[int | None, typer.Option(help="Maximum queries that a worker leases at once.")]
Concurrency = Annotated[int | None, typer.Option(help="Maximum requests in flight for this job (1 to 1,000).")]
MaxCredits = Annotated[int | None, typer.Option(help="Never spend more than this; the rest is skipped.")]
PoBoxes = Annotated[bool, typer.Option("--po-boxes", help="With --state: also PO boxes and ZIPs of one organisation.")]


@commands.command()
def plan(
    context: typer.Context,
    keyword: Keyword,
    state: State = None,
    zips: Zips = None,
    zips_from: ZipsFrom = None,
    pages: Pages = None,
    concurrency: Concurrency = None,
    max_credits: MaxCredits = None,
    po_boxes: PoBoxes = False,
    as_json: Json = False,
) -> None:
    """Estimate the queries, credits, cost and time of a job. Sends nothing and spends nothing."""
    job = _job(keyword, state, _all_zips(zips, zips_from), pages, None, concurrency, max_credits, po_boxes)
    priced = with_api(context, lambda at: at.api.post("/places/plan", job), store="optional")
    if as_json:
        render.show_json(priced)
    else:
        render.out().print(render.facts(plan_figures(priced)))


@commands.command()
def run(
    context: typer.Context,
    keyword: Keyword,
    state: State = None,
    zips: Zips = None,
    zips_from: ZipsFrom = None,
    pages: Pages = None,
    batch_size: BatchSize = None,
    concurrency: Concurrency = None,
    max_credits: MaxCredits = None,
    po_boxes: PoBoxes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Store the price of the job and send nothing.")] = False,
    idempotency_key: Annotated[
        str | None, typer.Option(help="Idempotency key: within 24 hours it returns the same job.")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Follow a job that a running Forager works on until it has ended.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Create a job and run it.

    If `forager up` is running, it does the work. Otherwise this command does, and ends with the job; Ctrl-C finishes
    in-flight tasks, and the job can be resumed. Meanwhile it holds the embedded store, and other commands fail with
    exit code 3: to use them, start `forager up` first.
    """
    job = _job(keyword, state, _all_zips(zips, zips_from), pages, batch_size, concurrency, max_credits, po_boxes)
    if dry_run:
        job["dry_run"] = True
    settings = invocation(context).settings()

    async def work(at: Reached) -> None:
        if at.engine is not None and not dry_run:
            check_key(settings)
        await run_job(
            at,
            "/places/jobs",
            job,
            words=words,
            total="total_queries",
            idempotency_key=idempotency_key,
            watch=watch,
            as_json=as_json,
            show_plan=_show_plan,
        )

    with_api(context, work, store="created")


def check_key(settings: "SettingsTree") -> None:
    """Raise `Rejected` before anything is stored: without a key every query would be refused."""
    from forager.pipelines.places.settings import PlacesSettings

    if settings.of(PlacesSettings).serper_api_key is None:
        raise Rejected(
            "SERPER_API_KEY is not set, so Serper would refuse every query. Set it (environment or .env),"
            " or try without a key: `forager demo`, or `forager sandbox` for a simulated upstream."
        )


def _show_plan(created: Mapping[str, Any]) -> None:
    render.out().print(render.facts([("job", created["job_id"]), *plan_figures(created["plan"])]))


def plan_figures(priced: Mapping[str, Any]) -> list[tuple[str, Any]]:
    n, took = render.count, render.duration

    def dollars(amount: Any) -> str:
        return render.money(float(amount))

    package = f", package {priced['package']}" if priced["package"] else ""
    known = priced["zips_with_history"]
    basis = f"what was recorded of {n(known)} ZIPs" if known else "60 % full pages, since nothing is recorded yet"
    return [
        (
            "queries",
            f"{n(priced['queries'])} ({render.some(priced['zips'], 'ZIP')} × {render.some(priced['pages'], 'page')})",
        ),
        ("credits", f"{n(priced['expected_credits'])} expected, {n(priced['worst_credits'])} at worst"),
        ("money", f"{dollars(priced['expected_usd'])} expected, {dollars(priced['worst_usd'])} at worst"),
        ("price", f"${priced['price_per_1000_usd']} per 1,000 credits{package}"),
        ("time", f"{took(priced['expected_seconds'])} expected, {took(priced['worst_seconds'])} at worst"),
        ("bound by", BINDS.get(priced["binds"], priced["binds"])),
        ("based on", basis),
    ]


BINDS = {
    "max_credits": "its budget (--max-credits)",
    "lane_rate": "the rate of the Serper package (FORAGER_SERPER_RATE)",
    "concurrency": "the requests in flight (--concurrency)",
    "latency": "the latency of pages that wait for one another",
}


def _job(
    keyword: str,
    state: str | None,
    zips: list[str] | None,
    pages: int | None,
    batch_size: int | None,
    concurrency: int | None,
    max_credits: int | None,
    po_boxes: bool,
) -> dict[str, Any]:
    """Return only the given parameters; the others get the defaults of the server."""
    given = {
        "keyword": keyword,
        "state": state,
        "zips": zips,
        "pages": pages,
        "batch_size": batch_size,
        "concurrency": concurrency,
        "max_credits": max_credits,
        "po_boxes": po_boxes or None,
    }
    return {name: value for name, value in given.items() if value is not None}


def _all_zips(zips: list[str] | None, file: Path | None) -> list[str] | None:
    """Values may contain commas, because people write --zip 85001,85002."""
    given = [part for text in zips or () for part in text.replace(",", " ").split()]
    if file is not None:
        try:
            given += file.read_text("utf-8-sig").replace(",", " ").split()
        except (OSError, UnicodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise typer.BadParameter(f"{file} cannot be read: {why}", param_hint="--zips-from") from error
    return given if given or zips or file else None


# The names of a places job's parts on the command line: queries, places, credits.


def request(params: Mapping[str, Any]) -> str:
    """`bars in AZ`, `bars in 85001, 85002, 85003 and 4 more`."""
    zips = params.get("zips") or ()
    where = params.get("state") or ", ".join(zips[:3])
    more = f" and {len(zips) - 3} more" if len(zips) > 3 and not params.get("state") else ""
    return f"{params.get('keyword') or ''} in {where}{more}".strip()


def saved(job: Job) -> int | None:
    """Queries that early exit made needless; None if tasks were also skipped for lack of budget or after a failure."""
    return None if job["max_cost"] is not None or job["failed"] else int(job["skipped"])


def results(job: Job) -> Figures:
    early = saved(job)
    spent = spent_with_assumed(job) + (f", {count(early)} saved by early exit" if early else "")
    return [
        ("queries", answered(job)),
        ("places", f"{count(job['records'])}, {count(job['discoveries'])} of them new"),
        ("credits", spent),
        ("skipped", count(job["skipped"]) if early is None and job["skipped"] else None),
    ]


def progress(job: Job) -> Iterable[str]:
    yield some(job["spent"], "credit")
    if job["skipped"]:
        yield f"{count(job['skipped'])} {'skipped' if saved(job) is None else 'saved'}"


words = Words(task=("query", "queries"), request=request, results=results, progress=progress)
