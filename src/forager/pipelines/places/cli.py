"""`forager places …`: price a job, and run it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forager.core.errors import Rejected
from forager.pipelines.places.job import point_of
from forager.sdk.cli import render
from forager.sdk.cli.invocation import JobId, Json, Reached, full_job, invocation, read_job, with_api
from forager.sdk.cli.render import Figures, Job, Words, answered, count, some, spent_with_assumed
from forager.sdk.cli.run_job import run_job

if TYPE_CHECKING:
    from forager.sdk.settings import SettingsTree

commands = typer.Typer(help="Business listings by keyword and ZIP code, or area of any country.", no_args_is_help=True)

Keywords = Annotated[
    list[str], typer.Option("--keyword", "-k", help="Search term for every ZIP or area, such as bars (repeatable).")
]
State = Annotated[str | None, typer.Option("--state", "-s", help="Two letters, such as AZ: every ZIP of that state.")]
Zips = Annotated[list[str] | None, typer.Option("--zip", "-z", help="This ZIP instead of a state (repeatable).")]
ZipsFrom = Annotated[
    Path | None, typer.Option(exists=True, dir_okay=False, help="A file with ZIPs, separated by blanks or lines.")
]
Areas = Annotated[
    list[str] | None,
    typer.Option(
        "--area",
        "-a",
        help="This area of any country instead: '10115 Berlin', or latitude,longitude,zoom (repeatable).",
    ),
]
AreasFrom = Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="A file with areas, one per line.")]
Country = Annotated[str | None, typer.Option(help="With --area: country of the search, two letters, such as de.")]
Language = Annotated[str | None, typer.Option(help="With --area: language of categories, two letters.")]
Pages = Annotated[int | None, typer.Option("--pages", "-p", help="Maximum pages of 10 results per ZIP (1 to 10).")]
BatchSize = Annotated[int | None, typer.Option(help="Maximum queries that a worker leases at once.")]
Concurrency = Annotated[int | None, typer.Option(help="Maximum requests in flight for this job (1 to 1,000).")]
MaxCredits = Annotated[int | None, typer.Option(help="Never spend more than this; the rest is skipped.")]
PoBoxes = Annotated[bool, typer.Option("--po-boxes", help="With --state: also PO boxes and ZIPs of one organisation.")]


@commands.command()
def plan(
    context: typer.Context,
    keyword: Keywords,
    state: State = None,
    zips: Zips = None,
    zips_from: ZipsFrom = None,
    areas: Areas = None,
    areas_from: AreasFrom = None,
    country: Country = None,
    language: Language = None,
    pages: Pages = None,
    concurrency: Concurrency = None,
    max_credits: MaxCredits = None,
    po_boxes: PoBoxes = False,
    as_json: Json = False,
) -> None:
    """Estimate the queries, credits, cost and time of a job. Sends nothing and spends nothing.

    Example: forager places plan -k "coffee shops" -s AZ
    """
    where = _where(state, zips, zips_from, areas, areas_from, country, language)
    job = _job(keyword, where, pages, None, concurrency, max_credits, po_boxes)

    async def quick(settings: Any, database: Any) -> Any:
        from forager.pipelines.places.wiring import price_at_rest

        return await price_at_rest(settings, database, job)

    priced = with_api(context, lambda at: at.api.post("/places/plan", job), store="optional", quick=quick)
    if as_json:
        render.show_json(priced)
    else:
        render.out().print(render.facts(plan_figures(priced, _unit(job))))


@commands.command()
def run(
    context: typer.Context,
    keyword: Keywords,
    state: State = None,
    zips: Zips = None,
    zips_from: ZipsFrom = None,
    areas: Areas = None,
    areas_from: AreasFrom = None,
    country: Country = None,
    language: Language = None,
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

    Example: forager places run -k bars -z 85001 --max-credits 10
    """
    where = _where(state, zips, zips_from, areas, areas_from, country, language)
    job = _job(keyword, where, pages, batch_size, concurrency, max_credits, po_boxes)
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


@commands.command()
def coverage(
    context: typer.Context,
    job: Annotated[
        str | None, typer.Argument(metavar="[JOB]", parser=read_job, help="Places job (default: the newest).")
    ] = None,
    zips: Annotated[bool, typer.Option("--zips", help="Only the ZIPs that were cut off, one per line.")] = False,
    as_json: Json = False,
) -> None:
    """Show how far the ZIPs of a job were read: complete, cut off at the last page, empty, failed, open.

    Example: forager places coverage <job> --zips
    """

    async def work(at: Reached) -> Any:
        return await at.api.get("/places/coverage", job=None if job is None else await full_job(at.api, job))

    seen = with_api(context, work)
    if as_json:
        render.show_json(seen)
        return
    cut = [each["zip"] for each in seen["zips"] if each["state"] == CUT_OFF]
    if zips:
        for code in cut:
            typer.echo(code)
        return
    counts = Counter(each["state"] for each in seen["zips"])
    rows = [(state.replace("_", " "), render.count(number)) for state, number in sorted(counts.items())]
    render.out().print(render.facts([("job", seen["job_id"]), ("ZIPs", render.count(len(seen["zips"]))), *rows]))
    if cut:
        note = f"{some(len(cut), 'ZIP')} may have more places. Read on: forager places deepen {seen['job_id']}"
        render.notes().print(note, markup=False, soft_wrap=True)


@commands.command()
def deepen(
    context: typer.Context,
    job: JobId,
    keywords: Annotated[
        list[str] | None,
        typer.Option("--keyword", "-k", help="Neighbouring term instead of further pages (repeatable)."),
    ] = None,
    pages: Annotated[
        int | None,
        typer.Option("--pages", "-p", min=1, max=10, help="Last page (default: 10; with -k that of the job)."),
    ] = None,
    max_credits: MaxCredits = None,
    split: Annotated[
        bool, typer.Option("--split", help="Areas by coordinates: four closer maps of each instead of further pages.")
    ] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Only show what it would cost.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: Json = False,
) -> None:
    """Read the ZIPs or areas on that a job left cut off: their further pages, neighbouring terms, or closer maps.

    Shows the estimate and asks before anything is spent. With several terms there is a job for each, and --max-credits
    holds for each of them.

    Example: forager places deepen <job> --plan
    """
    settings = invocation(context).settings()

    async def work(at: Reached) -> Any:
        whole = await full_job(at.api, job)
        before = (await at.api.get(f"/jobs/{whole}"))["params"]
        seen = await at.api.get("/places/coverage", job=whole)
        passes = second_pass(before, seen["zips"], keywords or [], pages, max_credits, split=split)
        priced = [await at.api.post("/places/plan", each) for each in passes]
        if as_json and (plan or not passes):
            render.show_json([{"job": each, "plan": price} for each, price in zip(passes, priced, strict=True)])
            return
        if not passes:
            render.out().print("Nothing of this job was cut off: there is nothing to read on.")
            return
        for each, price in zip(passes, priced, strict=True):
            if not as_json:
                render.out().print(render.facts([("second pass", request(each)), *plan_figures(price, _unit(each))]))
        if plan:
            return
        if not yes and not typer.confirm("Continue?", err=True):
            raise typer.Abort
        if at.engine is not None:
            check_key(settings)
        for each in passes:
            await run_job(at, "/places/jobs", each, words=words, total="total_queries", as_json=as_json)

    with_api(context, work)


CUT_OFF = "cut_off"


def second_pass(
    before: Mapping[str, Any],
    coverage: Sequence[Mapping[str, Any]],
    keywords: Sequence[str],
    pages: int | None,
    max_credits: int | None,
    *,
    split: bool = False,
) -> list[dict[str, Any]]:
    """Return the jobs of a second pass over what was cut off, one for each keyword; none if nothing is left to read.
    Raises `Rejected` if the first pass has already read to the last page that Serper has."""
    cut: dict[str, list[str]] = {}
    for each in coverage:
        if each["state"] == CUT_OFF:
            cut.setdefault(each.get("keyword") or before["keyword"], []).append(each["zip"])
    if not cut:
        return []
    last = int(before.get("pages") or 3)
    kept = {name: before[name] for name in ("country", "language") if before.get(name)}
    budget = {} if max_credits is None else {"max_credits": max_credits}
    where = "zips" if before.get("areas") is None else "areas"
    if keywords:
        every = list(dict.fromkeys(area for areas in cut.values() for area in areas))
        each_term = {where: every, "pages": pages or last, **kept, **budget}
        return [{"keyword": keyword, **each_term} for keyword in keywords]
    if split:
        closer = {keyword: _quarters(areas) for keyword, areas in cut.items()}
        return [
            {"keyword": keyword, "areas": areas, "pages": pages or last, **kept, **budget}
            for keyword, areas in closer.items()
        ]
    if last >= (pages or LAST_PAGE):
        raise Rejected(
            f"The job has read to page {last}. Give a higher --pages (up to {LAST_PAGE}), or neighbouring terms with"
            " -k."
        )
    further = {"first_page": last + 1, "pages": pages or LAST_PAGE, **kept, **budget}
    return [{"keyword": keyword, where: areas, **further} for keyword, areas in cut.items()]


def _quarters(areas: Sequence[str]) -> list[str]:
    points = [point_of(area) for area in areas]
    if None in points:
        raise Rejected("--split needs areas by coordinates: a ZIP or a name has no quarters. Use -k, or leave it out.")
    quarters = [str(quarter) for point in points if point is not None for quarter in point.quarters()]
    if not quarters:
        raise Rejected("These maps cannot be closer. Use neighbouring terms with -k.")
    return quarters


LAST_PAGE = 10


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


def _unit(job: Mapping[str, Any]) -> str:
    return "area" if job.get("areas") else "ZIP"


def plan_figures(priced: Mapping[str, Any], what: str = "ZIP") -> list[tuple[str, Any]]:
    n, took = render.count, render.duration

    def dollars(amount: Any) -> str:
        return render.money(float(amount))

    package = f", package {priced['package']}" if priced["package"] else ""
    known = priced["zips_with_history"]
    basis = (
        f"what was recorded of {render.some(known, what)}"
        if known
        else "60 % full pages, since nothing is recorded yet"
    )
    return [
        (
            "queries",
            f"{n(priced['queries'])} ({render.some(priced['zips'], what)}"
            + (f" × {render.some(priced['keywords'], 'keyword')}" if priced["keywords"] > 1 else "")
            + f" × {render.some(priced['pages'], 'page')})",
        ),
        ("credits", f"{n(priced['expected_credits'])} expected, {n(priced['worst_credits'])} at worst"),
        ("money", f"{dollars(priced['expected_usd'])} expected, {dollars(priced['worst_usd'])} at worst"),
        ("price", f"${priced['price_per_1000_usd']} per 1,000 credits{package}"),
        ("time", f"{took(priced['expected_seconds'])} expected, {took(priced['worst_seconds'])} at worst"),
        ("bound by", BINDS.get(priced["binds"], priced["binds"])),
        ("based on", basis),
    ]


NOTHING_RECORDED = "60 % full pages, since nothing is recorded yet"
BINDS = {
    "max_credits": "its budget (--max-credits)",
    "lane_rate": "the rate of the Serper package (FORAGER_SERPER_RATE)",
    "concurrency": "the requests in flight (--concurrency)",
    "latency": "the latency of pages that wait for one another",
}


def _where(
    state: str | None,
    zips: list[str] | None,
    zips_from: Path | None,
    areas: list[str] | None,
    areas_from: Path | None,
    country: str | None,
    language: str | None,
) -> dict[str, Any]:
    """Return the parameters that name where to look."""
    lines = [] if areas_from is None else [line.strip() for line in _text_of(areas_from, "--areas-from").splitlines()]
    listed = [*(areas or ()), *(line for line in lines if line and not line.startswith("#"))]
    return {
        "state": state,
        "zips": _all_zips(zips, zips_from),
        "areas": listed if areas or areas_from else None,
        "country": country,
        "language": language,
    }


def _job(
    keywords: Sequence[str],
    where: Mapping[str, Any],
    pages: int | None,
    batch_size: int | None,
    concurrency: int | None,
    max_credits: int | None,
    po_boxes: bool,
) -> dict[str, Any]:
    """Return only the given parameters; the others get the defaults of the server."""
    given = {
        "keyword": keywords[0],
        "more_keywords": list(keywords[1:]) or None,
        **where,
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
        given += _text_of(file, "--zips-from").replace(",", " ").split()
    return given if given or zips or file else None


def _text_of(file: Path, option: str) -> str:
    try:
        return file.read_text("utf-8-sig")
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise typer.BadParameter(f"{file} cannot be read: {why}", param_hint=option) from error


# The names of a places job's parts on the command line: queries, places, credits.


def request(params: Mapping[str, Any]) -> str:
    """`bars in AZ`, `bars, pubs in 85001, 85002, 85003 and 4 more`."""
    listed = params.get("areas") or params.get("zips") or ()
    where = params.get("state") or ", ".join(listed[:3])
    more = f" and {len(listed) - 3} more" if len(listed) > 3 and not params.get("state") else ""
    keywords = ", ".join([params.get("keyword") or "", *(params.get("more_keywords") or ())])
    return f"{keywords} in {where}{more}".strip()


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
